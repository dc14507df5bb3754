"""The durations of the tasks of a function, as far as known (contract; the code is in durations.pyx)."""

class Durations:
    """Exponentially weighted means by function digest. Those that were used last are kept."""

    def estimate(self, function: bytes) -> float | None: ...
    def add(self, function: bytes, count: int, total_seconds: float) -> None:
        """``count`` more tasks took ``total_seconds`` together."""
