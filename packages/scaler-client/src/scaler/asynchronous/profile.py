"""Profiles that coroutines take."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from scaler.client.profile import ProfileReport
from scaler.utility.exceptions import ControlError

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.inquiries import Inquiry


class AsyncProfile(ProfileReport):
    """Made by ``AsyncClient.profile``. It is taken from ``await start()`` to ``await stop()``, or within ``async
    with``. Its other methods are those of :class:`~scaler.client.profile.Profile`, and are not awaited."""

    def __init__(
        self,
        inquire: Callable[[Inquiry[list[bytes]]], Awaitable[list[bytes]]],
        link: LoopLink,
        numbers: Iterator[int],
        interval_seconds: float,
    ) -> None:
        """``inquire`` and ``numbers``: as for ``Profile``."""
        super().__init__(numbers, interval_seconds)
        self._inquire = inquire
        self._link = link

    async def start(self) -> AsyncProfile:
        """Start recording. Raises ``ControlError`` if the scheduler refuses it."""
        inquiry = self._beginning()
        try:
            await self._inquire(inquiry)
        except asyncio.CancelledError:
            with contextlib.suppress(ControlError):
                await self._inquire(self._end())  # it may have begun
            raise
        self._started_at = time.monotonic()
        return self

    async def stop(self) -> AsyncProfile:
        """Stop recording, and collect the samples of all hosts. Hosts that do not answer within five seconds are left
        out. Raises ``ControlError`` if the profile was lost with the scheduler."""
        self._stop_clock()
        profiles = await self._inquire(self._end())
        await self._link.in_thread(self._merge, profiles)
        return self

    async def __aenter__(self) -> AsyncProfile:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.stop()
        except Exception:
            if error is None:  # otherwise this one matters more
                raise
