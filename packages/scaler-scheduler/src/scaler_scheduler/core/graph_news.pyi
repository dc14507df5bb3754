"""Changes of graph nodes that other events have caused (contract of graph_news.pyx).

A table collects it, since one result can end, free or wake many nodes; the core takes it at the end of a drain, queues
what is ready and tells agents and the client.
"""

from scaler_scheduler.core.run_records import Ranges

class GraphNews:
    """Changes of graph nodes that other events have caused."""

    ready: Ranges
    cancels: dict[int, tuple[list[int], list[int]]]
    """By agent: tasks and attempts that are to stop there, or whose values are not needed."""
    cascaded: list[int]
    """Those among them that may run: an input of theirs ended without a value."""
    ended: list[int]
    """Ended with CANCELLED, for the client to hear of."""
    died: list[tuple[int, int]]
    """(task, status) of what ended otherwise, for the client to hear of."""
    delivered: list[int]
    """Large results that the client needs no more."""
    preferences: dict[int, list[int]]
    """By agent: ready nodes most of whose inputs it holds."""
