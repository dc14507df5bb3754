"""The connection of a worker manager to its scheduler: a socket in the event loop, and its session."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable

from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import make_hello
from scaler_protocol.messages import ManagerReport, Role
from scaler_worker.manager.core.scheduler_session import ManagerSession
from scaler_worker.shell.conversation import SchedulerConnection

_SESSION_SIZE_BYTES = 16
_LOOK_SECONDS = 0.25


class ManagerConnection:
    """``session`` knows the last order of the scheduler."""

    def __init__(self, address: str, log_tail: LogTail) -> None:
        """``log_tail``: the lines that the scheduler is sent. Raises OSError and ValueError, with a sentence."""
        session = os.urandom(_SESSION_SIZE_BYTES)
        self._connection = SchedulerConnection(address, session, 1)
        hello = make_hello(Role.WORK, session, distribution="scaler-worker")
        self.session = ManagerSession(hello, self._connection.handshake, time.monotonic())
        self._log_tail = log_tail

    async def run(self, report: Callable[[], ManagerReport], on_change: Callable[[], None]) -> None:
        """Run until cancelled; then say goodbye and close the connection. ``report`` tells what to report.
        ``on_change`` is called when there is another order, and when the session ends."""
        self._report, self._on_change = report, on_change
        loop, dealer = asyncio.get_running_loop(), self._connection.dealer
        descriptors = [each for each in (dealer.fd, dealer.monitor_fd) if each is not None]
        for each in descriptors:
            loop.add_reader(each, self._turn)
        try:
            while True:
                self._turn()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for each in descriptors:
                loop.remove_reader(each)
            self.session.leave()
            self._carry_out()
            self._connection.close(linger_milliseconds=200)

    def _turn(self) -> None:
        known = self.session.order, self.session.ended
        self._read()
        now = time.monotonic()
        self.session.on_deadline(now)
        self.session.on_logged(self._log_tail.take())
        self.session.report(self._report(), now)
        self._carry_out()
        if known != (self.session.order, self.session.ended):
            self._on_change()

    def _read(self) -> None:
        dealer, now = self._connection.dealer, time.monotonic()
        for event in dealer.connection_events():
            if event == "connected":
                self.session.on_connected(dealer.token, now)
            else:
                self.session.on_peer_lost(now)
            self.session.on_obstacle(dealer.obstacle)
        while (frames := dealer.receive()) is not None:
            try:
                self.session.on_message(decode(frames), now)
            except MalformedMessage as error:
                logging.error(f"The scheduler sent data that is not a message: {error}")

    def _carry_out(self) -> None:
        for effect in self.session.take_effects():
            if isinstance(effect, Send):
                self._connection.dealer.send(encode(effect.envelope))
            elif isinstance(effect, Log):
                logging.log(logging.getLevelName(effect.level), effect.text)
            else:
                self._connection.dealer.reconnect()
