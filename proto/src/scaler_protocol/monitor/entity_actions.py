"""The actions that the page of a thing offers."""

from __future__ import annotations

from collections.abc import Mapping

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor import links
from scaler_protocol.monitor.entities import GONE_STATES, EntityPage, Fact
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.operation import Action, actions_of_table, targets_of
from scaler_protocol.monitor.tables import TABLES

_TABLES = {
    links.WORKER: "processors",
    links.HOST: "agents",
    links.FUNCTION: "functions",
}
"""Kinds that are named by the last text of their link; the actions are those of a row of this table."""

_OF_SHARES: Mapping[str, tuple[Action, ...]] = {
    links.CLIENT: (ControlAction.CANCEL_CLIENT, ControlAction.SET_CLIENT_PRIORITY, ControlAction.SET_CLIENT_WEIGHT),
    links.GROUP: (ControlAction.SET_GROUP_WEIGHT, ControlAction.SET_GROUP_LIMIT),
}
"""The actions on clients and groups, which are named in the same way."""


def targets_of_page(link: EntityLink, page: EntityPage | None) -> Mapping[Action, str]:
    """Return the actions on what a page shows, and their targets. There are none on what has ended."""
    if page is None or any(Fact("state", state) in page.facts for state in GONE_STATES):
        return {}
    if link.kind == links.TASK:
        return _targets_of_task(link, page)
    if link.kind == links.GRAPH:
        return {ControlAction.CANCEL_GRAPH: "/".join(link.key)}
    actions = _OF_SHARES.get(link.kind) or actions_of_table(_TABLES.get(link.kind, ""))
    return dict.fromkeys(actions, link.key[-1])


def _targets_of_task(link: EntityLink, page: EntityPage) -> Mapping[Action, str]:
    """A task that waits can be cancelled, one that runs can be looked at, too."""
    running = [section.rows for section in page.sections if section.table == "running"]
    if running:
        return targets_of(TABLES["running"], running[0][0])
    return {} if page.moments is not None else {ControlAction.CANCEL_TASK: "/".join(link.key)}
