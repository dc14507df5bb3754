"""Weights and limits that operators have set for clients and groups, in words."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.groups import USUAL_WEIGHT
from scaler_protocol.monitor.format import format_count
from scaler_protocol.monitor.messages import ClientStatus, GroupStatus


def groups_by_name(groups: Iterable[GroupStatus]) -> dict[str, GroupStatus]:
    return {group.name: group for group in groups}


def weight_text(client: ClientStatus) -> str:
    """``4 (asked 1)``: the weight of a client in its group, and that which it has asked for if an operator has set
    another one. Empty for the usual one, 1."""
    if _is_set(client):
        return f"{client.weight:g} (asked {client.asked_weight:g})"
    return f"{client.weight:g}" if client.weight != USUAL_WEIGHT else ""


def weight_sentence(client: ClientStatus) -> str:
    """The same for a page, which has room."""
    if not _is_set(client):
        return f"{client.weight:g}"
    return f"{client.weight:g}, set by an operator; it has asked for {client.asked_weight:g}"


def group_weight_text(group: GroupStatus | None) -> str:
    """The weight of a group among the groups; empty for the usual one, 1."""
    return f"{group.weight:g}" if group is not None and group.weight != USUAL_WEIGHT else ""


def group_limit_text(group: GroupStatus | None) -> str:
    """The number of workers that a group may use; empty for any number."""
    return format_count(group.worker_limit) if group is not None and group.worker_limit else ""


def group_limit_sentence(group: GroupStatus) -> str:
    """The same for a page: ``at most 8 workers``."""
    if not group.worker_limit:
        return "any number of workers"
    return f"at most {format_count(group.worker_limit)} worker{'' if group.worker_limit == 1 else 's'}"


def group_text(name: str, group: GroupStatus | None) -> str:
    """``ci (weight 2, at most 8 workers)``: the name of a group, and what is not usual of it."""
    weight = group_weight_text(group)
    parts = [f"weight {weight}"] if weight else []
    parts += [group_limit_sentence(group)] if group is not None and group.worker_limit else []
    return f"{name} ({', '.join(parts)})" if parts else name


def _is_set(client: ClientStatus) -> bool:
    return client.asked_weight not in (0.0, client.weight)
