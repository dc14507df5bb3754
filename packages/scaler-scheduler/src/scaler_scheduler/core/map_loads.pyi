"""The tasks of one map, as ranges of their numbers (contract of map_loads.pyx).

Nothing is done once per task, except for tasks that fail: ``TaskColumns.count_map`` counts the others when a snapshot
is made.
"""

RANGES_LIMIT: int
"""Ranges of one map that have unfinished tasks. Tasks of further ones are not counted."""

class MapLoad:
    function: str
    total: int
    """The tasks that have come so far."""

    failed: int
    """Tasks that failed or were cancelled."""

    ranges: list[tuple[int, int]]
    """Their numbers, from the first to before the last."""

    is_over: bool
    """True: no task was unfinished when they were counted, and none has come since."""

    def __init__(self, function: str) -> None: ...
    def add(self, first: int, stop: int) -> bool:
        """Take in tasks that have come. False: they are not counted."""
