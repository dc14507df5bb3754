"""The actions of operators on agents, and on the tasks of other clients.

| Action | Target | Effect |
|---|---|---|
| pause | agents | they get no more tasks, and return what has not started |
| resume | agents | they get tasks again |
| drain | agents | as pause; they leave when their running tasks have ended |
| cancel | the tasks of a client or a function | those that have not ended are cancelled |

Without keys every client may do this: it is of the same user as the scheduler. With keys, administrators may; others
may cancel tasks of clients with their own key. Each action is written to the log, with the holder of the key.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler_protocol.keys import holder_of_user, is_same_holder
from scaler_protocol.messages import (
    CONTROL_SINCE_MINOR,
    ControlAction,
    ControlReply,
    ControlRequest,
    Drain,
    Withdraw,
)
from scaler_scheduler.core import admission, client_endings, notices, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState

NOT_ADMIN_TEXT = "Cannot {verb} {target!r}: this client's key does not permit it. Use admin.key."
Answer = tuple[str, tuple[str, ...], int]
"""The reason why an action is refused, empty if it is not; the names of the agents; the number of tasks that were
cancelled."""

_ALL_TASKS = 0x7FFFFFFF
_NAMED_LIMIT = 20


def on_request(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> None:
    """A client asks for an action on the cluster."""
    rule = _RULES.get(body.action)
    if rule is None:
        refusal, names, tasks = _refused("Cannot do this: the scheduler does not know this action. Update it.")
    else:
        refusal, names, tasks = rule(state, client, body.target, now)
    if not refusal:
        done = ", ".join(names) if names else f"{tasks} tasks"
        verb = ControlAction(body.action).name.lower().replace("_", " ")
        notices.log(state, f"Client {client.session.hex()[:8]}{_holder(client)}: {verb} {body.target!r}: {done}")
    outbox.send(state, client, ControlReply(body.number, not refusal, refusal, names, tasks), now)


def _refused(text: str) -> Answer:
    return text, (), 0


def _holder(client: ClientPeer) -> str:
    return f" with the key {holder_of_user(client.user)}" if client.user else ""


# ---- agents ----------------------------------------------------------------------------------------------------------


def pause(state: SchedulerState, client: ClientPeer, target: str, now: float) -> Answer:
    """Give agents no more tasks. What they have not started goes to others."""
    agents, refusal = _agents(state, client, "pause", target)
    for agent in agents:
        agent.is_paused = True
        if not agent.withdraw_pending:
            agent.withdraw_pending = True
            outbox.send(state, agent, Withdraw(_ALL_TASKS), now)
        state.placement.offer(agent)
    return refusal, _names(agents), 0


def resume(state: SchedulerState, client: ClientPeer, target: str, now: float) -> Answer:
    """Give agents tasks again."""
    agents, refusal = _agents(state, client, "resume", target)
    for agent in agents:
        agent.is_paused = False
        state.placement.offer(agent)
    return refusal, _names(agents), 0


def drain(state: SchedulerState, client: ClientPeer, target: str, now: float) -> Answer:
    """Have agents leave when their running tasks have ended."""
    agents, refusal = _agents(state, client, "drain", target)
    old = [agent.name for agent in agents if agent.hello.minor < CONTROL_SINCE_MINOR]
    if old:
        return _refused(f"Cannot drain {target!r}: {', '.join(old)} is too old for this. Update scaler-worker there.")
    for agent in agents:
        agent.is_paused = True
        outbox.send(state, agent, Drain(), now)
        state.placement.offer(agent)
    return refusal, _names(agents), 0


def _agents(state: SchedulerState, client: ClientPeer, verb: str, target: str) -> tuple[list[Agent], str]:
    """Return the agents that ``target`` names; if there are none, the reason."""
    if not admission.is_operator(state, client):
        return [], NOT_ADMIN_TEXT.format(verb=verb, target=target)
    attached = [agent for agent in state.agents.values() if agent.attached]
    found = [agent for agent in attached if _is_named(agent, target)]
    return (
        found,
        "" if found else f"Cannot {verb} {target!r}: no agent, worker or host has this name. {_known(attached)}",
    )


def _known(agents: list[Agent]) -> str:
    names = sorted(agent.name for agent in agents)
    if not names:
        return "No agent is connected."
    return f"The agents are {', '.join(names[:_NAMED_LIMIT])}{', ...' if len(names) > _NAMED_LIMIT else ''}."


def _is_named(agent: Agent, target: str) -> bool:
    return target in (agent.name, agent.host) or target in agent.worker_names


def _names(agents: list[Agent]) -> tuple[str, ...]:
    return tuple(sorted(agent.name for agent in agents))


# ---- tasks -----------------------------------------------------------------------------------------------------------


def cancel_client(state: SchedulerState, client: ClientPeer, target: str, now: float) -> Answer:
    """Cancel the tasks of one client, which may go on to submit others."""
    prefix = target.lower().removesuffix("+")
    known = list(state.clients.values())
    found = [each for each in known if prefix and each.session.hex().startswith(prefix)]
    if len(found) != 1:
        many = "several clients have ids that begin so" if found else "no client has an id that begins so"
        return _refused(f"Cannot cancel the tasks of client {target!r}: {many}. Use an id that the monitors show.")
    if not _may_cancel(state, client, found[0]):
        return _refused(NOT_ADMIN_TEXT.format(verb="cancel the tasks of client", target=target))
    return "", (), _cancel(state, found[0], None, now)


def cancel_function(state: SchedulerState, client: ClientPeer, target: str, now: float) -> Answer:
    """Cancel the tasks of all functions with this name, of all clients whose tasks may be cancelled."""
    if not any(load.name == target for load in state.function_loads.values()):
        return _refused(f"Cannot cancel the tasks of function {target!r}: no task has a function with this name.")
    permitted = [each for each in state.clients.values() if _may_cancel(state, client, each)]
    return "", (), sum(_cancel(state, each, target, now) for each in permitted)


def _may_cancel(state: SchedulerState, client: ClientPeer, other: ClientPeer) -> bool:
    if admission.is_operator(state, client):
        return True
    return bool(client.user) and is_same_holder(client.user, _root_of(state, other).user)


def _root_of(state: SchedulerState, client: ClientPeer) -> ClientPeer:
    """The client outside all tasks, by which a nested one has come about."""
    while client.parent is not None and client.parent.session in state.clients:
        client = state.clients[client.parent.session]
    return client


def _cancel(state: SchedulerState, client: ClientPeer, function: str | None, now: float) -> int:
    tasks = client.table.unfinished_tasks(function)
    client_endings.cancel(state, client, tasks, now)
    return len(tasks)


_RULES: dict[int, Callable[[SchedulerState, ClientPeer, str, float], Answer]] = {
    ControlAction.PAUSE: pause,
    ControlAction.RESUME: resume,
    ControlAction.DRAIN: drain,
    ControlAction.CANCEL_CLIENT: cancel_client,
    ControlAction.CANCEL_FUNCTION: cancel_function,
}
