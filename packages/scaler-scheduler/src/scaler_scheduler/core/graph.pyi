"""The shape of a graph: contract of graph.pyx.

Nodes are the tasks ``base`` to ``last`` of one session; an edge says that one needs the other's result. Each node
counts the inputs whose values are not there (``pending``), those that no agent has either (``open``), and the
unfinished dependants that need its value (``uses``). ``targets`` counts the nodes whose results are for the client
and have not reached it, ``live`` those that are in the task table, ``is_closed`` says that no more nodes come.
"""

class Graph:
    base: int
    last: int
    count: int
    edge_count: int
    is_closed: bool
    targets: int
    live: int
    failed: int
    """Nodes that ended without a value and were not cancelled."""

    has_large: bool
    """A large value has been produced."""

    def __init__(self, base: int, last: int) -> None: ...
    def describe(self, task: int) -> tuple[int, int, int, bool]:
        """(pending, open, uses, delivered)."""

    def inputs(self, task: int) -> list[int]:
        """The tasks whose results a task needs, one entry for each slot."""
