"""Stacks of running tasks: a client asks, the agent that runs the task looks.

| Event | Consequence |
|---|---|
| a client asks for a task of its own that an agent has | the agent is asked |
| an operator asks for a worker | its agent is asked |
| the task is elsewhere, or the worker is not known | the client is told where the task is |
| the agent answers | the client gets the answer |
| no answer comes in time: the agent is lost, or stands still | the client is told |
"""

from __future__ import annotations

from scaler_protocol.messages import CONTROL_SINCE_MINOR, StackReply, StackRequest
from scaler_scheduler.core import admission, explanation, notices, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.stack_table import WaitingStackRequest
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import ON_HOSTS
from scaler_scheduler.core.worker_names import has_process

ANSWER_SECONDS = 4.0

_SILENT_TEXT = "Cannot show the stack: the agent did not answer. It may be overloaded or lost."
_FULL_TEXT = "Cannot show the stack: too many requests for stacks are under way. Try again later."
_OLD_TEXT = "Cannot show the stack: the agent {name} is too old. Update scaler-worker there."
_NOT_ADMIN_TEXT = "Cannot show the stack of worker {name!r}: this client's key does not permit it. Use admin.key."
_UNKNOWN_TEXT = "Cannot show the stack: no worker has the name {name!r}. The monitors show the names."


def on_request(state: SchedulerState, client: ClientPeer, body: StackRequest, now: float) -> None:
    """A client asks for the stack of a task, or of a worker."""
    agent, refusal = _agent_to_ask(state, client, body)
    if agent is None or refusal:
        outbox.send(state, client, StackReply(body.number, False, refusal), now)
        return
    if body.worker:
        notices.log(state, f"Client {client.session.hex()[:8]}: stack of worker {body.worker!r}")
    waiting = WaitingStackRequest(client.session, body.number, agent.session, now + ANSWER_SECONDS)
    number = state.stacks.add(waiting)
    outbox.send(state, agent, StackRequest(number, client.session, body.task, body.worker), now)


def on_reply(state: SchedulerState, agent: Agent, body: StackReply, now: float) -> None:
    """An agent answers."""
    request = state.stacks.take(body.number, agent.session)
    if request is not None:
        _answer(state, request, body.is_found, body.text, now)


def on_tick(state: SchedulerState, now: float) -> None:
    """Answer the requests that no agent has answered in time."""
    for request in state.stacks.take_overdue(now):
        _answer(state, request, False, _SILENT_TEXT, now)


def _answer(state: SchedulerState, request: WaitingStackRequest, is_found: bool, text: str, now: float) -> None:
    client = state.clients.get(request.client)
    if client is not None:
        outbox.send(state, client, StackReply(request.number, is_found, text), now)


def _agent_to_ask(state: SchedulerState, client: ClientPeer, body: StackRequest) -> tuple[Agent | None, str]:
    """Return the agent to which the request is passed on, or why it is refused."""
    if not state.stacks.has_room_for(client.session):
        return None, _FULL_TEXT
    if body.worker and not admission.is_operator(state, client):
        return None, _NOT_ADMIN_TEXT.format(name=body.worker)
    agent = _agent_of_worker(state, body.worker) if body.worker else _agent_of_task(state, client, body.task)
    if agent is None and body.worker:
        return None, _UNKNOWN_TEXT.format(name=body.worker)
    if agent is None:
        return None, f"Cannot show the stack: {explanation.explain(state, client.session, body.task)}"
    return agent, _OLD_TEXT.format(name=agent.name) if agent.hello.minor < CONTROL_SINCE_MINOR else ""


def _agent_of_task(state: SchedulerState, client: ClientPeer, task: int) -> Agent | None:
    known = client.table.columns.describe(task)
    if known is None or known.state not in ON_HOSTS:
        return None
    return state.agent_by_index.get(known.agent_index)


def _agent_of_worker(state: SchedulerState, name: str) -> Agent | None:
    return next((agent for agent in state.agents.values() if has_process(agent, name)), None)
