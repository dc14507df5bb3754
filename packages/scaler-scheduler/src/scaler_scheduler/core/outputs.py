"""The output of tasks: a client asks, the agents that have run the task answer.

| Event | Consequence |
|---|---|
| a client asks for a task of its own | all agents are asked: the scheduler does not know where ended tasks have run |
| an operator asks for a task of any client | the same |
| an operator asks for a worker | its agent is asked |
| all agents have answered, or the time is over | the client gets what they have said |
| an agent reports what tasks have printed | it is recorded for monitors, up to a limit per second |
"""

from __future__ import annotations

from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import CONTROL_SINCE_MINOR, OutputReply, OutputRequest, PrintedOutput
from scaler_scheduler.core import admission, notices, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.output_table import WaitingOutputRequest
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.worker_names import may_have_run

ANSWER_SECONDS = 4.0
RECORDED_BYTES_PER_SECOND = 512 * 1024
"""Limit of output for monitors and event logs."""

_OWN_SESSION = bytes(ID_SIZE_BYTES)
_FULL_TEXT = "Cannot show the output: too many requests for output are under way. Try again later."
_OLD_TEXT = "Cannot show the output: the agent {name} is too old. Update scaler-worker there."
_NOT_ADMIN_TEXT = "Cannot show the output of {what}: this client's key does not permit it. Use admin.key."
_UNKNOWN_TEXT = "Cannot show the output: no worker has the name {name!r}. The monitors show the names."
_SILENT_TEXT = "Cannot show the output: the agent did not answer. It may be overloaded or lost."


def on_request(state: SchedulerState, client: ClientPeer, body: OutputRequest, now: float) -> None:
    """A client asks for the output of a task, or of a worker."""
    agents = [agent for agent in state.agents.values() if _is_asked(agent, body.worker)]
    refusal = _refusal(state, client, body, agents)
    asked = {agent.session: agent for agent in agents if agent.hello.minor >= CONTROL_SINCE_MINOR}
    if refusal or not asked:
        outbox.send(state, client, OutputReply(body.number, not refusal, refusal), now)
        return
    if body.worker or body.session != _OWN_SESSION:
        what = f"worker {body.worker!r}" if body.worker else f"task {body.task} of {body.session.hex()[:8]}"
        notices.log(state, f"Client {client.session.hex()[:8]}: output of {what}")
    session = client.session if body.session == _OWN_SESSION else body.session
    number = state.outputs.add(WaitingOutputRequest(client.session, body.number, set(asked), now + ANSWER_SECONDS))
    for agent in asked.values():
        outbox.send(state, agent, OutputRequest(number, session, body.task, body.worker), now)


def on_reply(state: SchedulerState, agent: Agent, body: OutputReply, now: float) -> None:
    """An agent answers."""
    request = state.outputs.answer(body, agent.session)
    if request is not None:
        _answer(state, request, now)


def on_tick(state: SchedulerState, now: float) -> None:
    """Answer the requests that some agent has not answered in time."""
    for request in state.outputs.take_overdue(now):
        _answer(state, request, now)


def on_printed(state: SchedulerState, agent: Agent, body: PrintedOutput, now: float) -> None:
    """Tasks of this agent have printed something."""
    if not (state.events.is_on and state.settings.monitor_output and agent.attached):
        return
    for piece in body.pieces:
        client = state.clients.get(piece.session)
        session = client.table.columns.number if client is not None else None
        state.events.printed(piece, session, agent.index, RECORDED_BYTES_PER_SECOND)


def _answer(state: SchedulerState, request: WaitingOutputRequest, now: float) -> None:
    client = state.clients.get(request.client)
    if client is not None:
        is_found = bool(request.pieces) or not request.agents
        pieces = tuple(sorted(request.pieces, key=lambda piece: piece.attempt))
        outbox.send(state, client, OutputReply(request.number, is_found, "" if is_found else _SILENT_TEXT, pieces), now)


def _is_asked(agent: Agent, worker: str) -> bool:
    return may_have_run(agent, worker) if worker else agent.attached


def _refusal(state: SchedulerState, client: ClientPeer, body: OutputRequest, agents: list[Agent]) -> str:
    """Return why the request is not passed on; empty: it can be."""
    if (body.worker or body.session != _OWN_SESSION) and not admission.is_operator(state, client):
        return _NOT_ADMIN_TEXT.format(what=f"worker {body.worker!r}" if body.worker else "tasks of others")
    if body.worker and not agents:
        return _UNKNOWN_TEXT.format(name=body.worker)
    if agents and all(agent.hello.minor < CONTROL_SINCE_MINOR for agent in agents):
        return _OLD_TEXT.format(name=agents[0].name)
    return "" if state.outputs.has_room_for(client.session) else _FULL_TEXT
