"""The actions of operators on agents, and on the tasks of other clients.

| Action | Target | Effect |
|---|---|---|
| pause | agents | they get no more tasks, and return what has not started |
| resume | agents | they get tasks again, except those that leave |
| drain | agents | as pause; they leave when their running tasks have ended |
| cancel | a task, or the tasks of a client, a function or a graph | those that have not ended are cancelled |
| kill | a worker process | its task dies; another process takes its place |
| restart | a worker process | the same, when its task has ended |
| set the weight | a client or a group | its share of the running time changes |
| set the limit | a group | it uses at most so many workers |
| set the priority | the tasks of a client or a function | those that have not been assigned move in the queue |

Without keys every client may do this: it is of the same user as the scheduler. With keys, administrators may; others
may cancel tasks of clients with their own key. Each action is written to the log and the audit log, with the user: the
holder of the key, or without keys the scheduler's own. Weights, limits and priorities last until the scheduler
restarts; weights of clients and priorities until the client leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scaler_protocol.groups import checked_weight
from scaler_protocol.keys import holder_of_user, is_same_holder
from scaler_protocol.messages import (
    CONTROL_SINCE_MINOR,
    ControlAction,
    ControlReply,
    ControlRequest,
    EndProcess,
)
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.format import printable
from scaler_scheduler.core import admission, draining, notices, operator_cancels, outbox, withdrawals
from scaler_scheduler.core.action_rates import TOO_MANY_TEXT
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.effects import Audit
from scaler_scheduler.core.fair_shares import ShareGroup
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.worker_names import has_process

NOT_ADMIN_TEXT = "Cannot {verb} {target!r}: this client's key does not permit it. Use admin.key."


class _ActionResult(NamedTuple):
    """``refusal``: why the action is refused; empty: it was carried out. ``names``: the agents, workers, clients or
    groups that it changed. ``tasks``: how many tasks it cancelled or moved in the queue."""

    refusal: str = ""
    names: tuple[str, ...] = ()
    tasks: int = 0


_NAMED_LIMIT = 20
_DIGITS_LIMIT = 19
_WORKERS_LIMIT = 1_000_000
PRIORITY_LIMIT = 1_000_000
_SHOWN_TARGET_LIMIT = 60
_WITH_VALUE = range(ControlAction.SET_CLIENT_WEIGHT, ControlAction.SET_FUNCTION_PRIORITY + 1)


def on_request(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> None:
    """A client asks for an action on the cluster."""
    rule = _RULES.get(body.action)
    if not state.action_rates.permits(client.session, now):
        result = _refused(f"Cannot do this: {TOO_MANY_TEXT}")
    elif rule is None:
        result = _refused("Cannot do this: the scheduler does not know this action. Update it.")
    else:
        result = rule(state, client, body, now)
    if not result.refusal:
        _record(state, client, body, result)
    names = tuple(map(printable, result.names))
    refusal = printable(_with_short_target(result.refusal, body.target))
    reply = ControlReply(body.number, not refusal, refusal, names, result.tasks)
    outbox.send(state, client, reply, now)


def _record(state: SchedulerState, client: ClientPeer, body: ControlRequest, result: _ActionResult) -> None:
    """Write an action that was carried out to the log and the audit log."""
    verb = ControlAction(body.action).name.lower().replace("_", " ")
    value = f" {body.value:g}" if body.action in _WITH_VALUE else ""
    done = ", ".join(result.names) if result.names else f"{result.tasks} tasks"
    notices.log(state, f"Client {client.session.hex()[:8]}{_holder(client)}: {verb}{value} {body.target!r}: {done}")
    user, hello = operator_cancels.user_of(state, client), client.hello
    state.effects.append(Audit(user, hello.host, hello.pid, verb, body.target, body.value, result.names, result.tasks))


def _with_short_target(refusal: str, target: str) -> str:
    """Return the sentence with the beginning of a long name: a reader of the whole one would not find the reason."""
    return refusal.replace(target, short_text(target, _SHOWN_TARGET_LIMIT))


def _refused(text: str) -> _ActionResult:
    return _ActionResult(refusal=text)


def _holder(client: ClientPeer) -> str:
    return f" with the key {holder_of_user(client.user)}" if client.user else ""


# ---- agents ----------------------------------------------------------------------------------------------------------


def pause(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Give agents no more tasks. Tasks that they have not started go to others."""
    agents, refusal = _agents(state, client, "pause", body.target)
    for agent in agents:
        agent.is_paused = True
        withdrawals.ask_for_all(state, agent, now)
        state.placement.offer(agent)
    return _ActionResult(refusal, _names(agents))


def resume(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Give agents tasks again, except those that leave."""
    agents, refusal = _agents(state, client, "resume", body.target)
    staying = [agent for agent in agents if not draining.is_draining(agent)]
    if agents and not staying:
        return _refused(f"Cannot resume {body.target!r}: it is draining, and leaves when its running tasks have ended.")
    for agent in staying:
        agent.is_paused = False
        state.placement.offer(agent)
    return _ActionResult(refusal, _names(staying))


def drain(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Have agents leave when their running tasks have ended and other agents have their values."""
    agents, refusal = _agents(state, client, "drain", body.target)
    old = [agent.name for agent in agents if agent.hello.minor < CONTROL_SINCE_MINOR]
    if old:
        return _refused(
            f"Cannot drain {body.target!r}: {', '.join(old)} is too old for this. Update scaler-worker there."
        )
    for agent in agents:
        agent.is_paused = True  # so none of them is asked to keep the values of another one
    for agent in agents:
        draining.drain(state, agent, now)
    return _ActionResult(refusal, _names(agents))


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


def cancel_client(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Cancel the tasks of one client, which may go on to submit others."""
    other, refusal = _permitted_client(state, client, "cancel the tasks of client", body.target)
    if other is None:
        return _refused(refusal)
    tasks = other.table.unfinished_tasks()
    return _ActionResult(tasks=operator_cancels.cancel(state, client, other, tasks, "all tasks of this client", now))


def cancel_function(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Cancel the tasks of all functions with this name, of all clients whose tasks may be cancelled."""
    verb = "cancel the tasks of function"
    if not _has_function(state, body.target):
        return _refused(f"Cannot {verb} {body.target!r}: no task has a function with this name.")
    what = f"all tasks of function {short_text(body.target, _SHOWN_TARGET_LIMIT)}"
    tasks = [(each, each.table.unfinished_tasks(body.target)) for each in _permitted(state, client)]
    count = sum(operator_cancels.cancel(state, client, each, numbers, what, now) for each, numbers in tasks)
    if not count and any(each.table.unfinished_tasks(body.target) for each in _forbidden(state, client)):
        return _refused(NOT_ADMIN_TEXT.format(verb=verb, target=body.target))
    return _ActionResult(tasks=count)


def cancel_task(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Cancel one task of a client."""
    other, number, refusal = _numbered(state, client, "cancel task", body.target)
    if other is None:
        return _refused(refusal)
    if other.table.columns.describe(number) is None:
        return _refused(f"Cannot cancel task {number}: it has ended, or was never submitted.")
    return _ActionResult(tasks=operator_cancels.cancel(state, client, other, [number], "this task", now))


def cancel_graph(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Cancel the tasks of one graph of a client."""
    other, number, refusal = _numbered(state, client, "cancel graph", body.target)
    if other is None:
        return _refused(refusal)
    graph = other.table.nodes.graphs.get(number)
    if graph is None:
        return _refused(f"Cannot cancel graph {number}: it has ended, or was never submitted.")
    tasks = [task for task in other.table.unfinished_tasks() if graph.base <= task <= graph.last]
    return _ActionResult(tasks=operator_cancels.cancel(state, client, other, tasks, "this graph", now))


def _permitted_client(
    state: SchedulerState, client: ClientPeer, verb: str, target: str
) -> tuple[ClientPeer | None, str]:
    """Return the client whose id begins so, if this one may act on it; otherwise why not."""
    prefix = target.lower().removesuffix("+")
    found = [each for each in state.clients.values() if prefix and each.session.hex().startswith(prefix)]
    if len(found) != 1:
        many = "several clients have ids that begin so" if found else "no client has an id that begins so"
        return None, f"Cannot {verb} {target!r}: {many}. Use an id that the monitors show."
    if not _may_cancel(state, client, found[0]):
        return None, NOT_ADMIN_TEXT.format(verb=verb, target=target)
    return found[0], ""


def _numbered(state: SchedulerState, client: ClientPeer, verb: str, target: str) -> tuple[ClientPeer | None, int, str]:
    """Return what ``_permitted_client`` does, with the number behind the slash."""
    session, _, text = target.partition("/")
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_LIMIT:
        return None, 0, f"Cannot {verb} {target!r}: give the id of the client, a slash and a number."
    other, refusal = _permitted_client(state, client, verb, session)
    return other, int(text), refusal


def _permitted(state: SchedulerState, client: ClientPeer) -> list[ClientPeer]:
    return [each for each in state.clients.values() if _may_cancel(state, client, each)]


def _forbidden(state: SchedulerState, client: ClientPeer) -> list[ClientPeer]:
    return [each for each in state.clients.values() if not _may_cancel(state, client, each)]


def _has_function(state: SchedulerState, name: str) -> bool:
    return any(load.is_called(name) for load in state.function_loads.values())


def _may_cancel(state: SchedulerState, client: ClientPeer, other: ClientPeer) -> bool:
    if admission.is_operator(state, client):
        return True
    return bool(client.user) and is_same_holder(client.user, _root_of(state, other).user)


def _root_of(state: SchedulerState, client: ClientPeer) -> ClientPeer:
    """The client outside all tasks, by which a nested one has come about."""
    while client.parent is not None and client.parent.session in state.clients:
        client = state.clients[client.parent.session]
    return client


# ---- worker processes ------------------------------------------------------------------------------------------------


def kill_worker(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Kill the process of a worker: its task dies."""
    return _end_process(state, client, "kill worker", body.target, True, now)


def restart_worker(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Replace the process of a worker when its task has ended."""
    return _end_process(state, client, "restart worker", body.target, False, now)


def _end_process(
    state: SchedulerState, client: ClientPeer, verb: str, target: str, at_once: bool, now: float
) -> _ActionResult:
    if not admission.is_operator(state, client):
        return _refused(NOT_ADMIN_TEXT.format(verb=verb, target=target))
    attached = [agent for agent in state.agents.values() if has_process(agent, target)]
    if not attached:
        return _refused(f"Cannot {verb} {target!r}: no worker has this name. The monitors show the names.")
    old = [agent.name for agent in attached if agent.hello.minor < CONTROL_SINCE_MINOR]
    if old:
        return _refused(f"Cannot {verb} {target!r}: {old[0]} is too old for this. Update scaler-worker there.")
    for agent in attached:
        outbox.send(state, agent, EndProcess(target, at_once), now)
    return _ActionResult(names=(target,))


# ---- weights, limits and priorities ----------------------------------------------------------------------------------


def set_client_weight(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Change how much of the running time of its group a client gets, with the clients in its tasks."""
    verb = "set the weight of client"
    if not admission.is_operator(state, client):
        return _refused(NOT_ADMIN_TEXT.format(verb=verb, target=body.target))
    other, refusal = _permitted_client(state, client, verb, body.target)
    refusal = refusal or _wrong_weight(body)
    if other is None or refusal:
        return _refused(refusal)
    other.table.columns.share.weight = body.value
    return _ActionResult(names=(_shown_id(other),))


def set_group_weight(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Change how much of the running time a group gets."""
    group, refusal = _group(state, client, "set the weight of group", body.target)
    refusal = refusal or _wrong_weight(body)
    if group is None or refusal:
        return _refused(refusal)
    group.weight = state.shares.weights[group.name] = body.value
    return _ActionResult(names=(group.name,))


def set_group_limit(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Change how many workers a group may use."""
    group, refusal = _group(state, client, "set the limit of group", body.target)
    limit = _whole_number(body.value, 0, _WORKERS_LIMIT)
    if group is None or limit is None:
        wrong = f"Cannot limit group {body.target!r} to {body.value:g} workers. "
        return _refused(refusal or f"{wrong}Give a whole number up to {_WORKERS_LIMIT:,}.")
    group.worker_limit = state.shares.worker_limits[group.name] = limit
    for agent in state.agents.values():
        state.placement.offer(agent)
    return _ActionResult(names=(group.name,))


def set_client_priority(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Change the priority of the tasks of a client that wait."""
    verb = "set the priority of client"
    if not admission.is_operator(state, client):
        return _refused(NOT_ADMIN_TEXT.format(verb=verb, target=body.target))
    other, refusal = _permitted_client(state, client, verb, body.target)
    return _refused(refusal) if other is None else _set_priority(state, [other], None, body)


def set_function_priority(state: SchedulerState, client: ClientPeer, body: ControlRequest, now: float) -> _ActionResult:
    """Change the priority of the tasks of functions with a name that wait."""
    verb = "set the priority of function"
    if not admission.is_operator(state, client):
        return _refused(NOT_ADMIN_TEXT.format(verb=verb, target=body.target))
    if not _has_function(state, body.target):
        return _refused(f"Cannot {verb} {body.target!r}: no task has a function with this name.")
    return _set_priority(state, list(state.clients.values()), body.target, body)


def _set_priority(
    state: SchedulerState, clients: list[ClientPeer], function: str | None, body: ControlRequest
) -> _ActionResult:
    priority = _whole_number(body.value, -PRIORITY_LIMIT, PRIORITY_LIMIT)
    if priority is None:
        return _refused(f"Cannot set the priority {body.value:g}: give a whole number up to {PRIORITY_LIMIT:,}.")
    count = sum(each.table.set_priority(function, priority) for each in clients)
    if count:
        state.actors.empty()
        state.placement.rebuild([(each, each.table) for each in state.clients.values()])
    return _ActionResult(tasks=count)


def _group(state: SchedulerState, client: ClientPeer, verb: str, target: str) -> tuple[ShareGroup | None, str]:
    if not admission.is_operator(state, client):
        return None, NOT_ADMIN_TEXT.format(verb=verb, target=target)
    group = state.shares.groups.get(target)
    return group, "" if group is not None else f"Cannot {verb} {target!r}: no client is in a group with this name."


def _wrong_weight(body: ControlRequest) -> str:
    """Return why the value cannot be a weight; empty if it can."""
    try:
        checked_weight(body.value)
    except ValueError as error:
        return f"Cannot set the weight of {body.target!r}: {error}"
    return ""


def _whole_number(value: float, least: int, greatest: int) -> int | None:
    return int(value) if least <= value <= greatest and value == int(value) else None


def _shown_id(client: ClientPeer) -> str:
    return client.session.hex()[:8]


_RULES: dict[int, Callable[[SchedulerState, ClientPeer, ControlRequest, float], _ActionResult]] = {
    ControlAction.PAUSE: pause,
    ControlAction.RESUME: resume,
    ControlAction.DRAIN: drain,
    ControlAction.CANCEL_CLIENT: cancel_client,
    ControlAction.CANCEL_FUNCTION: cancel_function,
    ControlAction.CANCEL_TASK: cancel_task,
    ControlAction.CANCEL_GRAPH: cancel_graph,
    ControlAction.KILL_WORKER: kill_worker,
    ControlAction.RESTART_WORKER: restart_worker,
    ControlAction.SET_CLIENT_WEIGHT: set_client_weight,
    ControlAction.SET_GROUP_WEIGHT: set_group_weight,
    ControlAction.SET_GROUP_LIMIT: set_group_limit,
    ControlAction.SET_CLIENT_PRIORITY: set_client_priority,
    ControlAction.SET_FUNCTION_PRIORITY: set_function_priority,
}
