"""All task counts, recounted from the states of the tasks (contract of census.pyx).

One census goes through all tables (``TaskTable.recount`` adds a table to it); then it is compared with what queues,
agents and functions have counted. Each difference is noted as a sentence. A census that
``corrects`` also replaces the wrong count.
"""

from collections.abc import Mapping

from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass

class Census:
    queued: dict[QueueClass, int]
    wrong: list[str]
    """A sentence for each count that was wrong."""

    subject: str
    """The beginning of the texts that are noted: what the counts belong to."""

    def __init__(self, corrects: bool = False) -> None: ...
    def must_correct(self, text: str) -> bool:
        """Note that a count is wrong. Returns whether the caller must correct it."""

    def compare_queue(self, queue: QueueClass) -> None: ...
    def compare_agent(self, agent: AgentLoad, total: dict[str, int]) -> None:
        """Compare the counts of an agent with its tasks. ``total``: the amounts of capabilities of all its workers
        together."""

    def compare_reserved(self, agent: AgentLoad) -> None:
        """Compare the count of the tasks that are reserved for an agent with these tasks."""

    def compare_functions(self, known: list[FunctionLoad]) -> None:
        """Compare the counts of these functions, and of all that tasks have."""

    def unknown_agents(self, known: Mapping[int, object]) -> list[int]:
        """Return the indices of agents that have tasks, as the states of these say, and are not ``known``."""
