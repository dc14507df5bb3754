"""Numbers of functions, for the colours of monitors: all monitors of a scheduler paint a function alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

NUMBERED_LIMIT = 20_000
"""Names that keep their numbers: more than a snapshot shows. The one that was shown longest ago is forgotten first."""


class FunctionNumbers:
    """A name has the same number as long as it is shown. Numbers count from 1 and are used once."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[Hashable, int] = OrderedDict()
        self._last = 0

    def number_of(self, name: Hashable) -> int:
        """Return the number of a name. A new name gets the next number."""
        number = self._numbers.get(name)
        if number is None:
            self._last += 1
            number = self._last
        self._numbers[name] = number
        self._numbers.move_to_end(name)
        if len(self._numbers) > NUMBERED_LIMIT:
            self._numbers.popitem(last=False)
        return number
