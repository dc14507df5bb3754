"""``scaler status``: a cluster on one screen."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence

from scaler import Client
from scaler.client.cluster_info import ClusterInfo
from scaler.command.settings import ReportSettings
from scaler_protocol.monitor.document import document_of
from scaler_protocol.monitor.format import format_span, printable
from scaler_protocol.monitor.messages import (
    AgentStatus,
    ClientStatus,
    GroupStatus,
    PeerState,
    WaitGroup,
    user_of_client,
)
from scaler_protocol.monitor.rows import short_id
from scaler_protocol.monitor.shares import group_text, groups_by_name, weight_text

_ROWS = 10
"""Maximum number of rows of each list."""


def run(settings: ReportSettings) -> int:
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        info = client.cluster_info()
    if settings.json:
        print(json.dumps(document_of(info.snapshot), indent=1))
    else:
        print("\n".join(lines_of(info, (socket.gethostname(), os.getpid()))))
    return 0


def lines_of(info: ClusterInfo, own: tuple[str, int] = ("", 0)) -> list[str]:
    """The screen. ``own``: host and process of the client that asks, which is left out."""
    others = [each for each in info.clients if (each.host, each.pid) != own]
    groups = groups_by_name(info.groups)
    return [
        f"Scheduler  {_scheduler(info)}",
        f"Workers    {_workers(info)}",
        f"Tasks      {_tasks(info)}",
        *_section("Clients", [_client(each, groups) for each in others]),
        *_section("Waiting", list(map(_wait, info.waits)), info.snapshot.wait_count),
        *_section("Running", [_running(info, index) for index in range(len(info.running))]),
        *_section("Managers", list(_managers(info))),
        *_section("Problems", list(_problems(info))),
    ]


def _scheduler(info: ClusterInfo) -> str:
    scheduler = info.scheduler
    up = format_span(scheduler.uptime_seconds)
    return f"{scheduler.address}, version {scheduler.version}, {scheduler.host} (pid {scheduler.pid}), up {up}"


def _workers(info: ClusterInfo) -> str:
    hosts = len({each.host for each in info.agents})
    busy = sum(each.is_busy for each in info.workers)
    return f"{len(info.workers)} on {hosts} host{'' if hosts == 1 else 's'}, {busy} busy"


def _tasks(info: ClusterInfo) -> str:
    unfinished, tasks = info.unfinished, info.tasks
    now = f"{unfinished.waiting:,} waiting, {unfinished.queued:,} queued on hosts, {unfinished.running:,} running"
    return f"{now}; {tasks.success:,} succeeded, {tasks.failed:,} failed, {tasks.canceled:,} cancelled"


def _client(each: ClientStatus, groups: Mapping[str, GroupStatus]) -> str:
    name = f"{short_id(each.session)} {each.host} (pid {each.pid})"
    who = [printable(text) for text in (user_of_client(each), each.program) if text]
    name = ": ".join([name, ", ".join(who)]) if who else name
    group = f", group {printable(group_text(each.group, groups.get(each.group)))}" if each.group else ""
    weight = weight_text(each)
    group += f", weight {weight}" if weight else ""
    away = "" if each.connected else ", away"
    return (
        f"{name}{group}{away}: {each.unassigned:,} waiting, {each.running:,} on hosts, {each.finished:,} finished, "
        f"{format_span(each.used_seconds)} used"
    )


def _running(info: ClusterInfo, index: int) -> str:
    task = info.running[index]
    text = f"{printable(task.function)} on {task.host} {task.worker} for {format_span(task.seconds)}"
    return f"{text}: {task.suspicion}" if task.suspicion else text


def _managers(info: ClusterInfo) -> Iterator[str]:
    for setting in info.snapshot.settings:
        if setting.name.startswith("worker manager "):
            yield f"{printable(setting.name.removeprefix('worker manager '))}: {printable(setting.value)}"


def _problems(info: ClusterInfo) -> Iterator[str]:
    if info.snapshot.trouble:
        yield printable(info.snapshot.trouble)
    if not info.agents and not any(_managers(info)):  # those that follow the load may need no workers now
        yield "No workers are connected. Start some: scaler_cluster ADDRESS"
    for agent in info.agents:
        if agent.state != PeerState.CONNECTED:
            yield _agent_problem(agent)


def _agent_problem(agent: AgentStatus) -> str:
    if agent.state == PeerState.SUSPECT:
        return f"{agent.name} has been silent for {format_span(agent.silent_seconds)}."
    text = f"{agent.name} is {agent.state_name}"
    if agent.draining and agent.sent:
        return f"{text}: it leaves when its running tasks have ended."
    return f"{text}."


def _wait(group: WaitGroup) -> str:
    return f"{group.count:,} x {printable(group.function)}: {group.reason}"


def _section(title: str, rows: Sequence[str], total: int = 0) -> list[str]:
    """Nothing without rows. ``total``: how many there are, if more than these."""
    left_out = max(total, len(rows)) - _ROWS
    more = [f"... and {left_out:,} more"] if left_out > 0 else []
    shown = [*rows[:_ROWS], *more]
    return [f"{title if not index else '':10} {row}" for index, row in enumerate(shown)]
