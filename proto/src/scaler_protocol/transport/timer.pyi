"""A time to come, as a descriptor that can be waited for together with others. Linux only."""

class Timer:
    """Raises OSError where there is no descriptor left."""

    @property
    def fd(self) -> int:
        """Readable once the time has come, until it is taken or set again."""

    def set(self, seconds: float) -> None:
        """Start the timer: nothing is readable before that time is over."""

    def take(self) -> bool:
        """Return whether the time has come since this was asked last."""

    def close(self) -> None: ...
