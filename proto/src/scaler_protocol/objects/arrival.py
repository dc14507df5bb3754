"""Objects that arrive from other stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

CUT: Final = "cut"
"""Instead of a body: the connection is gone, and is tried again."""

GONE: Final = "gone"
"""Instead of a body: it will not come back."""

OPENING: Final = "opening"
"""Instead of a body: the source answers, and its bulk connection is being opened. A Welcome follows."""

BULK_LOST: Final = "bulk lost"
"""Instead of a body: the bulk connection of a store that fetches here is gone."""


@dataclass(slots=True)
class Arrival:
    """A body from another store that fetches here (``peer``), or from a source (``endpoint``)."""

    peer: int
    endpoint: str
    body: Any
