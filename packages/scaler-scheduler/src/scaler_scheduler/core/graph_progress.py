"""The consequences of changes in graphs: nodes become ready, end, or their values are not needed any more."""

from __future__ import annotations

from scaler_protocol.messages import ObjectKey
from scaler_scheduler.core import cancellation, faults, requeue, task_endings
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.graph_news import GraphNews
from scaler_scheduler.core.state import SchedulerState


def on_turn_end(state: SchedulerState, now: float) -> None:
    """Apply the changes in the graphs of all clients, once per turn."""
    for client in list(state.graph_clients.values()):
        try:
            apply_changes(state, client, now)
        except Exception as error:
            faults.on_receiver(state, client, error, now)


def apply_changes(
    state: SchedulerState, client: ClientPeer, now: float, lost_text: str = task_endings.LOST_TEXT
) -> None:
    """Apply the changes in the graphs of one client. ``lost_text``: why nodes ended that must not run again."""
    client.table.nodes.prefers_holders = len(state.agents) > 1
    news = client.table.nodes.take_news()
    if news is not None:
        _apply(state, client, news, now, lost_text)
    elif not client.table.nodes.graphs:
        state.graph_clients.pop(client.session, None)


def _apply(state: SchedulerState, client: ClientPeer, news: GraphNews, now: float, lost_text: str) -> None:
    """Queue nodes that are ready, report nodes that have ended, and have agents drop values or keep tasks ready."""
    requeue.push(client, news.ready)
    for index, (tasks, attempts) in news.cancels.items():
        agent = state.agent_by_index.get(index)
        if agent is None:
            continue
        agent.cancel(client.session, tasks, attempts)
        for task in tasks if state.relays else ():
            state.relays.end(ObjectKey(client.session, task), agent.session)
    for task in news.cascaded if state.lineage else ():
        cancellation.cancel_children(state, client.session, task, now)
    for task in news.delivered:
        client.forget(task)
    for task, status in news.died:
        task_endings.report_failed(state, client, task, status, lost_text)
    task_endings.report_cancelled(state, client, news.ended)
    for index, tasks in news.preferences.items():
        if index in state.agent_by_index:
            agent = state.agent_by_index[index]
            agent.load.deferred.extend((client.table, task, 0) for task in tasks)
            state.placement.offer(agent)
