"""The maps of one client (contract of map_loads.pyx).

Nothing is done once per task, except for tasks that fail: the columns enter each run here, and take it out when its
last task has ended. ``TaskColumns.count_maps`` counts the tasks in between when a snapshot is made.
"""

ENDED_LIMIT: int
"""Maps of one client that are over and are kept, the latest ones. The others take memory of which the client may use a
limited amount."""

class MapLoad:
    """The counts of one map of a client."""

    number: int
    function: str
    module: str
    total: int
    """The tasks that have come so far."""

    failed: int
    """Tasks that failed or were cancelled."""

    canceled: int
    """Tasks that were cancelled; ``failed`` includes them."""

    live_tasks: int
    """All tasks of the runs that have tasks in the columns. 0: the map is over, unless more tasks come."""

    expected: int
    """The tasks that there will be when all have come; 0: those that have come; MAP_TASKS_UNKNOWN: not known."""

    def __init__(self, number: int, function: str, module: str = "") -> None: ...

class MapTable:
    live: dict[int, MapLoad]
    """The maps with tasks in the columns by number, the latest one last."""

    ended: dict[int, MapLoad]
    """The latest of the others, too."""

    def find(self, number: int, function: str, module: str = "") -> MapLoad:
        """Return the map with this number, which is kept as soon as it has tasks."""
