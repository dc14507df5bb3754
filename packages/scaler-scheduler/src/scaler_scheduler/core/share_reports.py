"""Reports of the part of the workers that each client gets, for monitors and explanations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from scaler_protocol.monitor.reasons import LIMIT_TAKEN_BY_ACTORS
from scaler_scheduler.core.actor_queues import ActorKey
from scaler_scheduler.core.agents import agents_with_actors
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.fair_shares import Share, ShareGroup
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import ON_HOSTS, TaskState

_SHOWN = 3


def shares_of(state: SchedulerState) -> dict[Share, float]:
    """The part of all running time that each active share is due, from 0 to 1. A share is active when one of its
    clients has a task that waits for a worker or is with one."""
    active = dict.fromkeys(client.table.columns.share for client in state.clients.values() if _is_active(client))
    groups = dict.fromkeys(share.group for share in active)
    in_groups = sum(group.weight for group in groups)
    in_group = {group: sum(share.weight for share in active if share.group is group) for group in groups}
    return {share: share.group.weight / in_groups * share.weight / in_group[share.group] for share in active}


def _is_active(client: ClientPeer) -> bool:
    return any(client.table.columns.count(each) for each in (TaskState.QUEUED, *ON_HOSTS))


def why_limited(state: SchedulerState, client: ClientPeer) -> str:
    """Empty: the group of the client may use more workers."""
    group = client.table.columns.share.group
    if not group.worker_limit or group.running < group.worker_limit:
        return ""
    if len(list(islice(_actors_in(state, group), group.worker_limit))) == group.worker_limit:
        return f"{LIMIT_TAKEN_BY_ACTORS}: {group.worker_limit} in {group.name!r}."
    workers = f"{group.worker_limit} worker" + ("s" if group.worker_limit != 1 else "")
    return f"its group {group.name!r} uses the {workers} that it may use."


def _actors_in(state: SchedulerState, group: ShareGroup) -> Iterator[ActorKey]:
    """Yield the actors that hold workers which count for the group."""
    for agent in agents_with_actors(state.agents):
        for key in agent.actors:
            client = state.clients.get(key[0])
            if client is not None and client.table.columns.share.group is group:
                yield key


def place_in_queue(shares: dict[Share, float], client: ClientPeer, task: int, record: RunRecord) -> str:
    """The client's share, and what goes before a queued task. Empty: nothing does. ``shares``: of ``shares_of``."""
    own, others = record.queue.ahead_of(client.table, task)
    if len(shares) < 2 and not own:
        return ""
    share = client.table.columns.share
    text = f"Its client, of the group {share.group.name!r}, is due {shares.get(share, 0.0):.0%} of the running time."
    text += f" Queue position: {own + 1} among the client's tasks"
    if not others:
        return text + "; no other client is ahead."
    shown = ", ".join(f"{each.shown_id.hex()[:8]} ({each.table.columns.share.group.name})" for each in others[:_SHOWN])
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return f"{text}; ahead are the clients {shown}{more}."
