"""All task counts, recounted from the states of the tasks (contract of census.pyx).

One census goes through all tables (``TaskTable.recount`` adds a table to it); then it is compared with what queues,
agents and functions have counted. The ``amend`` verbs return what was wrong, in words, and put it right when they are
told to.
"""

from collections.abc import Mapping

from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass

class Census:
    queued: dict[QueueClass, int]
    def __init__(self) -> None: ...
    def amend_queue(self, queue: QueueClass, corrects: bool) -> list[str]: ...
    def amend_agent(self, agent: AgentLoad, total: dict[str, int], corrects: bool) -> list[str]:
        """``total``: the capabilities that all its workers have together."""

    def amend_functions(self, known: list[FunctionLoad], corrects: bool) -> list[str]:
        """Correct the counts of these functions, and of all that tasks have."""

    def unknown_agents(self, known: Mapping[int, object]) -> list[int]:
        """Agents that tasks are said to be with, and that are not there."""
