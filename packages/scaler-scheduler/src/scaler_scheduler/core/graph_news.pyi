"""Changes of graph nodes that other events have caused (contract of graph_news.pyx).

A table collects them, since one result can end, free or wake many nodes. At the end of a turn, the core takes them,
queues the nodes that are ready and tells agents and the client about the others.
"""

from scaler_scheduler.core.run_records import Ranges

class GraphNews:
    """Changes of graph nodes that other events have caused."""

    ready: Ranges
    cancels: dict[int, tuple[list[int], list[int]]]
    """By agent, the tasks and attempts that must stop there, or whose values are not needed."""
    cascaded: list[int]
    """The cancelled tasks that may run: one of their inputs ended without a value."""
    ended: list[int]
    """Ended with CANCELLED, for the client to hear of."""
    died: list[tuple[int, int]]
    """(task, status) of what ended otherwise, for the client to hear of."""
    delivered: list[int]
    """Large results that the client needs no more."""
    preferences: dict[int, list[int]]
    """By agent, the ready nodes most of whose inputs it holds."""
