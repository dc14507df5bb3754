"""The share to which a client belongs."""

from __future__ import annotations

from difflib import get_close_matches

from scaler_protocol.groups import USUAL_WEIGHT, checked_group, checked_weight
from scaler_protocol.keys import name_of_user
from scaler_protocol.messages import Hello, RefusalReason, Refused, Role
from scaler_scheduler.core import notices
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.limits import GROUPS_LIMIT
from scaler_scheduler.core.state import SchedulerState

DEFAULT_GROUP = "default"
"""The group of clients that name none, on a scheduler without keys."""


def refusal_for(state: SchedulerState, hello: Hello) -> Refused | None:
    """Return why a client cannot have the group and the weight that it asks for; None: it can."""
    if hello.role == Role.WORK:
        return None
    try:
        if hello.group:
            checked_group(hello.group)
        if hello.weight:
            checked_weight(hello.weight)
    except ValueError as error:
        return Refused(RefusalReason.OTHER, str(error))
    if hello.group and hello.group not in state.shares.groups and len(state.shares.groups) >= GROUPS_LIMIT:
        return Refused(
            RefusalReason.OTHER,
            f"Cannot join the group {hello.group!r}: there are {GROUPS_LIMIT} groups already. Join one of them.",
        )
    return None


def join(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """A client joins the group that it names. Without a name, it is the group of its user."""
    hello = client.hello
    if hello.group and not hello.parent_session:
        _warn_if_unknown(state, client, hello.group, now)
    name = hello.group or name_of_user(client.user) or DEFAULT_GROUP
    client.table.columns.share = state.shares.join(name, hello.weight or USUAL_WEIGHT)


def _warn_if_unknown(state: SchedulerState, client: ClientPeer, name: str, now: float) -> None:
    """Any group may be named. If the operator has given some a weight or a limit, another name may be a mistake."""
    known = {**state.shares.weights, **state.shares.worker_limits}
    if not known or name in known:
        return
    close = get_close_matches(name, known, 1)
    hint = f"Is it {close[0]!r}?" if close else "See --group-weights and --group-limits."
    notices.warn(
        state,
        state.group_warnings,
        f"Client {client.shown_id.hex()[:8]} joins the group {name!r}, which has no weight and no limit here, unlike "
        f"others: it counts as 1, and may use all workers. {hint}",
        now,
    )


def inherit(state: SchedulerState, client: ClientPeer, parent: ClientPeer) -> None:
    """A nested client belongs to the share of the client around it, and so does every client in its own tasks."""
    share = parent.table.columns.share
    ahead = [client]
    while ahead:
        each = ahead.pop()
        if each.table.columns.share is not share:
            state.shares.leave(each.table.columns.share)
            each.table.columns.share = share
            share.group.add_member()
            state.placement.move_share(each.table)
            ahead += state.lineage.of_client(each.session)


def leave(state: SchedulerState, client: ClientPeer) -> None:
    """A client is forgotten."""
    state.shares.leave(client.table.columns.share)
