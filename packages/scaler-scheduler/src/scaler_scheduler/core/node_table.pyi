"""The nodes of a client's graphs (contract of node_table.pyx): it uses the columns of the table of its tasks.

An unfinished node counts in the ``uses`` of its inputs; a node whose value is somewhere (STORED, DONE_LARGE) counts no
more in the ``pending`` of its dependants, one that is assigned, too, no more in their ``open``. ``settle`` recounts
after what is rare: a lost agent, the end of a hold. A task that ends takes along the nodes that need it, so ending a
task is here, too. States and their legal transitions: see ``states``.
"""

from array import array

from scaler_scheduler.core.graph import Graph
from scaler_scheduler.core.graph_news import GraphNews
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.task_columns import TaskColumns

class NodeTable:
    graphs: dict[int, Graph]
    prefers_holders: bool
    has_large: bool
    """A node has had a large value, which an agent or a store kept."""

    def __init__(self, columns: TaskColumns) -> None: ...
    def count_nodes(self, graph: Graph) -> tuple[int, int, int, int, int, int, int]:
        """Return the number of nodes of a graph, and how many wait for inputs, are ready, run, are done, failed or were
        cancelled, and were cancelled."""

    def append_graph(self, record: RunRecord, state: int) -> bool:
        """Like append, for nodes of a graph. False: they cannot be part of their graph, and are not entered."""

    def take_news(self) -> GraphNews | None: ...
    def end_holds(self, of_once: bool) -> None:
        """Nodes stated again after a restart may run, as far as their values are needed and nowhere. ``of_once``: in
        graphs with nodes that must not start twice; False: in all others."""

    def held_once(self) -> list[int]:
        """Return the held nodes that must not start twice."""

    def note_started(self, task: int) -> None:
        """A held node may have started before the restart: it ends if its value is needed."""

    def settle(self, graph: Graph) -> None: ...
    def value_holder(self, task: int) -> int | None: ...
    def note_copy(self, task: int, agent: int) -> None: ...
    def copies_of(self, task: int) -> tuple[int, ...]: ...
    def forget_copy(self, task: int, agent: int) -> None:
        """This agent has asked for the value, and does not have it."""

    def forget_copies_of(self, task: int) -> None: ...
    def values_at(self, agent: int) -> list[int]:
        """The tasks whose values an agent has, in ascending order. It looks at all pages of the table."""

    def count_values(self, counts: array[int]) -> None:
        """Add how many values each agent has, by its index; ``counts`` is of 64-bit integers. It looks at all pages of
        the table."""

    def large_values(self, graph: Graph, limit: int, readers_limit: int) -> list[tuple[int, int, int, int, list[int]]]:
        """The large values of nodes that an agent has, at most ``limit``: the node, the size in bytes, the agent, how
        many unfinished nodes need it, and the first ``readers_limit`` of these. Looks at all nodes and edges."""

    def move_value(self, task: int, source: int, target: int) -> bool:
        """Agent ``target`` has the value, too, and is asked for it from now on. False: ``source`` did not have it."""

    def lose_value(self, task: int, agent: int, losses_limit: int) -> int:
        """An agent no longer has a value. Returns an ``Action``: REQUEUE, WAIT, GIVE_UP or NOTHING."""
