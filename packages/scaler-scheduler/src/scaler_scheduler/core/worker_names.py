"""The names by which clients and operators mean a worker process of an agent."""

from __future__ import annotations

from scaler_protocol.process_names import nested_number
from scaler_scheduler.core.agents import Agent


def has_process(agent: Agent, name: str) -> bool:
    """Return whether the agent is here and has a worker with this name, or has reported that its process for nested
    tasks with this name runs one."""
    if not agent.attached or name in agent.worker_names:
        return agent.attached
    number = nested_number(agent.name, name)
    tasks = agent.heartbeat.running_tasks if agent.heartbeat is not None else ()
    return number is not None and any(task.worker == len(agent.worker_names) + number - 1 for task in tasks)


def may_have_run(agent: Agent, name: str) -> bool:
    """Return whether the agent is here and tasks may have run there in a process with this name."""
    return agent.attached and (name in agent.worker_names or nested_number(agent.name, name) is not None)
