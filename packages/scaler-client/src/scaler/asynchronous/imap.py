"""``imap`` and ``imap_unordered`` for coroutines: a call takes from its source as results are taken from it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from typing import Any, Protocol

from scaler.asynchronous.future import AsyncFuture
from scaler.client.outcomes import hide_frames

_REFILL_BELOW = 0.75
_FILL_SECONDS = 0.001

Submit = Callable[..., AsyncFuture[Any]]


class ImapLine(Protocol):
    """The calls of an ``imap`` whose results were not taken."""

    def __len__(self) -> int: ...
    def add(self, future: AsyncFuture[Any]) -> None: ...

    def is_ready(self) -> bool:
        """Return whether a result can be taken."""

    async def take(self) -> Any:
        """Wait for the next result. The line must not be empty."""

    def cancel(self) -> None: ...


class OrderedLine:
    """Results are taken in the order of the calls."""

    def __init__(self) -> None:
        self._futures: deque[AsyncFuture[Any]] = deque()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._futures)

    def add(self, future: AsyncFuture[Any]) -> None:
        self._futures.append(future)

    def is_ready(self) -> bool:
        return self._futures[0].done()

    async def take(self) -> Any:
        try:
            result = await self._futures[0]
        except Exception as error:
            error.add_note(f"Raised by item {self._taken} of imap(), counting from 0.")
            raise
        self._futures.popleft()
        self._taken += 1
        return result

    def cancel(self) -> None:
        for future in self._futures:
            future.cancel()


class EndedLine:
    """Results are taken in the order in which the tasks end."""

    def __init__(self) -> None:
        self._futures: set[AsyncFuture[Any]] = set()
        self._ended: deque[asyncio.Future[Any]] = deque()
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._futures)

    def add(self, future: AsyncFuture[Any]) -> None:
        self._futures.add(future)
        future.add_done_callback(self._end)

    def _end(self, future: asyncio.Future[Any]) -> None:
        self._ended.append(future)
        self._news.set()

    def is_ready(self) -> bool:
        return bool(self._ended)

    async def take(self) -> Any:
        while not self._ended:
            self._news.clear()
            await self._news.wait()
        future = self._ended.popleft()
        self._futures.discard(future)
        return future.result()

    def cancel(self) -> None:
        for future in self._futures:
            future.cancel()


class Source:
    """Submits the calls of an iterable. Each visit takes a millisecond at most, so that the loop is not held up."""

    def __init__(self, submit: Submit, calls: Iterator[tuple[Any, ...]], line: ImapLine, ahead: int) -> None:
        self._submit = submit
        self._calls: Iterator[tuple[Any, ...]] | None = calls
        self._line = line
        self._ahead = ahead

    async def fill(self) -> None:
        """Return when a result can be taken, when enough calls are under way, or at the end of the iterable."""
        line = self._line
        while self._calls is not None and len(line) <= self._ahead * _REFILL_BELOW:
            self._visit(self._calls)
            await asyncio.sleep(0)
            if len(line) and line.is_ready():
                return

    def _visit(self, calls: Iterator[tuple[Any, ...]]) -> None:
        until = time.monotonic() + _FILL_SECONDS
        while len(self._line) < self._ahead and time.monotonic() < until:
            call = next(calls, None)
            if call is None:
                self._calls = None
                return
            self._line.add(self._submit(*call))

    async def close(self) -> None:
        self._calls = None


class AsyncSource:
    """Submits the items of an asynchronous iterable, as they come, in a task of its own."""

    def __init__(self, submit: Submit, items: AsyncIterable[Any], line: ImapLine, ahead: int) -> None:
        self._submit = submit
        self._items = items
        self._line = line
        self._ahead = ahead
        self._has_room = asyncio.Event()
        self._has_news = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    async def fill(self) -> None:
        """Return when a call is under way, or at the end of the iterable. Raises what the iterable raises."""
        if self._pump is None:
            self._pump = asyncio.create_task(self._run())
        if len(self._line) <= self._ahead * _REFILL_BELOW:
            self._has_room.set()
        while not len(self._line) and not self._pump.done():
            self._has_news.clear()
            await self._has_news.wait()
        if self._pump.done():
            self._pump.result()

    async def _run(self) -> None:
        try:
            await self._submit_all()
        finally:
            asyncio.get_running_loop().call_soon(self._has_news.set)  # when this task is done

    async def _submit_all(self) -> None:
        until = 0.0
        async for item in self._items:
            self._line.add(self._submit(item))
            self._has_news.set()
            if len(self._line) >= self._ahead:
                self._has_room.clear()
                await self._has_room.wait()
            elif time.monotonic() > until:  # an iterable that never waits does not hold up the loop
                await asyncio.sleep(0)
                until = time.monotonic() + _FILL_SECONDS

    async def close(self) -> None:
        if self._pump is not None and not self._pump.done():
            self._pump.cancel()
            await asyncio.wait([self._pump])


async def results_of(source: Source | AsyncSource, line: ImapLine) -> AsyncGenerator[Any, None]:
    """The results of a line that ``source`` fills. When the iteration ends, the calls that were not taken are
    cancelled."""
    try:
        while True:
            await source.fill()
            if not len(line):
                return
            yield await line.take()
    except BaseException as error:
        hide_frames(error)
        raise
    finally:
        line.cancel()
        await source.close()
