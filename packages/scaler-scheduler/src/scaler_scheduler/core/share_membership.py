"""The share to which a client belongs."""

from __future__ import annotations

from scaler_protocol.groups import checked_group, checked_weight
from scaler_protocol.keys import name_of_user
from scaler_protocol.messages import Hello, RefusalReason, Refused, Role
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


def join(state: SchedulerState, client: ClientPeer) -> None:
    """A client joins the group that it names. Without a name, it is the group of its user."""
    hello = client.hello
    name = hello.group or name_of_user(client.user) or DEFAULT_GROUP
    client.table.columns.share = state.shares.join(name, hello.weight or 1.0)


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
