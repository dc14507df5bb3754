"""The Symphony agent's shell: between the scheduler's socket, the core and Symphony's threads."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from scaler_protocol.command import BadInput, current_parent, install_stop_signals, new_event_loop
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.handshake import make_hello
from scaler_protocol.heartbeat_slots import seconds_to_next
from scaler_protocol.ids import new_session
from scaler_protocol.messages import Role, WorkerStatus
from scaler_protocol.options import values_of
from scaler_protocol.profile import ProfileTree
from scaler_worker.config import OBJECT_RETENTION_SECONDS
from scaler_worker.core.effects import BeginProfile, EndProfile, Exit
from scaler_worker.core.settings import AgentSettings, ConnectionOptions
from scaler_worker.shell.conversation import Conversation, SchedulerConnection
from scaler_worker.shell.resources import ProcessMeter, host_memory_bytes
from scaler_worker.symphony.config import SymphonySettings
from scaler_worker.symphony.core.agent import SymphonyCore
from scaler_worker.symphony.core.effects import OpenSession, SendInput
from scaler_worker.symphony.inbox import Inbox
from scaler_worker.symphony.session import (
    Answered,
    Ended,
    Event,
    ExecutionFailed,
    Noted,
    NotTaken,
    Opened,
    SymphonyGateway,
    Taken,
)


class SymphonyAgent:
    """One client session of Symphony as an agent, in one event loop. ``run`` returns its exit code."""

    def __init__(
        self,
        settings: SymphonySettings,
        gateway: SymphonyGateway,
        inbox: Inbox[Event],
        loop: asyncio.AbstractEventLoop,
        log_tail: LogTail,
    ) -> None:
        self._settings = settings
        self._gateway = gateway
        self._inbox = inbox
        self._loop = guarded = GuardedLoop(loop, TurnGuard("Agent"))
        session = new_session()
        connection = SchedulerConnection(settings.address, session, settings.io_threads)
        hello = make_hello(Role.WORK, session, distribution="scaler-worker")
        self._core = SymphonyCore(_core_settings(settings), hello, time.monotonic(), connection.handshake)
        effects: dict[type, Callable[[Any], None]] = {
            OpenSession: gateway.request,
            SendInput: gateway.request,
            Exit: self._exit,
            BeginProfile: lambda effect: None,  # tasks run in processes of Symphony, which are not sampled
            EndProfile: lambda effect: self._core.on_profile(effect.number, ProfileTree(), time.monotonic()),
        }
        self._conversation = Conversation(self._core, connection, guarded, effects)
        self._meter = ProcessMeter()
        self._log_tail = log_tail
        self._was_announced = False
        self._ended = loop.create_future()
        self._take_in: dict[type, Callable[[Any, float], None]] = {
            Opened: self._on_opened,
            Ended: lambda event, now: self._core.on_session_failed(event.session, event.text, now),
            Taken: lambda event, now: self._core.on_taken(event.number, now),
            NotTaken: lambda event, now: self._core.on_refused(event.number, event.text, now),
            Answered: lambda event, now: self._core.on_answer(event.number, event.answer, now),
            ExecutionFailed: lambda event, now: self._core.on_failure(event.number, event.text, now, event.report),
            Noted: lambda event, now: logging.warning(event.text),
        }

    async def run(self) -> int:
        self._gateway.start()
        self._inbox.listen(self._take)
        self._conversation.begin()
        self._loop.call_later(seconds_to_next(self._settings.heartbeat_interval, time.time()), self._report)
        try:
            return int(await self._ended)
        finally:
            self._conversation.end()
            self._gateway.stop()

    def stop(self) -> None:
        self._conversation.tell(self._core.on_stop)

    def disconnect(self) -> None:
        """After ``run``."""
        self._conversation.disconnect()

    def _exit(self, effect: Exit) -> None:
        if not self._ended.done():
            logging.log(logging.ERROR if effect.code else logging.INFO, f"ClusterProcess: exiting: {effect.text}")
            self._ended.set_result(effect.code)

    # ---- what Symphony says ----------------------------------------------------------------------------------

    def _take(self, events: list[Event]) -> None:
        for event in events:
            self._conversation.hear(self._take_in[type(event)], event)
        self._conversation.end_turn()

    def _on_opened(self, event: Opened, now: float) -> None:
        self._core.on_session_opened(event.session, now)
        if self._was_announced:
            logging.info("Symphony: a new session is open")
            return
        self._was_announced = True
        for index in range(self._settings.base_concurrency):
            logging.info(f"Worker[{index}] started")

    # ---- reports ---------------------------------------------------------------------------------------------

    def _report(self) -> None:
        self._loop.call_later(seconds_to_next(self._settings.heartbeat_interval, time.time()), self._report)
        cpu_percent, rss_bytes = self._meter.read(os.getpid())
        free, limit = host_memory_bytes()
        workers = tuple(self._worker_status())
        self._core.report(cpu_percent, rss_bytes, free, workers, time.monotonic(), memory_limit_bytes=limit)
        self._core.on_logged(self._log_tail.take(), time.monotonic())
        self._conversation.expect_turn()

    def _worker_status(self) -> list[WorkerStatus]:
        """Tasks run somewhere in Symphony: a row says whether its slot is taken, its figures are not known."""
        grid = self._core.grid
        return [
            WorkerStatus(name, os.getpid(), 0.0, 0, grid.session.is_open, is_busy, False)
            for name, is_busy in zip(grid.names, grid.sent.busy_slots(), strict=True)
        ]


def run_agent(settings: SymphonySettings, log_tail: LogTail) -> int:
    """Run until it is told to stop, or its scheduler or Symphony is gone for good. Returns the exit code. Monitors show
    the lines of ``log_tail``."""
    loop = new_event_loop(settings.event_loop)
    try:
        return _run(_connected(settings, loop, log_tail), settings, loop)
    finally:  # also of a command that ends before it began: a loop left open complains when Python ends
        loop.close()


def _connected(settings: SymphonySettings, loop: asyncio.AbstractEventLoop, log_tail: LogTail) -> SymphonyAgent:
    """Return an agent whose first session is open. Raises BadInput."""
    inbox: Inbox[Event] = Inbox(loop)
    gateway = SymphonyGateway(settings.service, settings.address, _name(settings), inbox.post)
    gateway.connect()
    try:
        return SymphonyAgent(settings, gateway, inbox, loop, log_tail)
    except (OSError, ValueError) as error:
        raise BadInput(str(error)) from None


def _run(agent: SymphonyAgent, settings: SymphonySettings, loop: asyncio.AbstractEventLoop) -> int:
    install_stop_signals(loop, agent.stop)
    logging.info(
        f"ClusterProcess: starting {settings.base_concurrency} workers, "
        f"heartbeat_interval_seconds={settings.heartbeat_interval:g}, "
        f"object_retention_seconds={OBJECT_RETENTION_SECONDS}"
    )
    parent = current_parent()
    if parent is not None:
        parent.report_ready(pid=os.getpid())
    try:
        return loop.run_until_complete(agent.run())
    finally:
        agent.disconnect()


def _name(settings: SymphonySettings) -> str:
    return settings.worker_name or f"{socket.gethostname()}-{os.getpid()}"


def _core_settings(settings: SymphonySettings) -> AgentSettings:
    name = _name(settings)
    return AgentSettings(
        name=name,
        worker_names=tuple(f"{name}-{index}" for index in range(settings.base_concurrency)),
        manager=settings.manager or "",
        address=str(settings.address),
        **values_of(ConnectionOptions, settings),
    )
