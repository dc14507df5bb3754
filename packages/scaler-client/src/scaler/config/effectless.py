"""Objects of settings that have no effect."""

from __future__ import annotations

from typing import Any

from scaler.utility.other_names import warn_of_settings


class EffectlessSettings:
    """Keeps the values that it is given, and warns that they have no effect."""

    def __init__(self, *args: Any, **values: Any) -> None:
        warn_of_settings(type(self).__name__)
        self.__dict__.update(values)
