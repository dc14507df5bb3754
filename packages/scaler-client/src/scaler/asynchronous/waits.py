"""The wait of a coroutine for the ends of several tasks, whose large results it leaves where they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION
from contextlib import nullcontext
from typing import Any, TypeVar

from scaler.asynchronous.future import AsyncFuture
from scaler.asynchronous.progress import progress_of_tasks

T = TypeVar("T")


async def wait_for_tasks(
    loop: asyncio.AbstractEventLoop,
    futures: Iterable[AsyncFuture[T]],
    timeout: float | None,
    return_when: str,
    shows_progress: bool,
) -> tuple[set[AsyncFuture[T]], set[AsyncFuture[T]]]:
    """Return the futures whose tasks have ended, and the others, as soon as ``return_when`` or the timeout permits."""
    waited = _checked(loop, futures, return_when)
    left = {each for each in waited if not each.is_known_to_have_ended}
    over: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def note(future: AsyncFuture[Any]) -> None:
        left.discard(future)
        if not left or _suffices(future, return_when):
            end()

    with progress_of_tasks(waited, "wait") if shows_progress else nullcontext():
        if left and not any(_suffices(each, return_when) for each in waited - left):
            await _watch(loop, list(left), note, timeout, end, over)
    ended = {each for each in waited if each.is_known_to_have_ended}
    return ended, waited - ended


async def _watch(
    loop: asyncio.AbstractEventLoop,
    futures: list[AsyncFuture[Any]],
    note: Callable[[AsyncFuture[Any]], object],
    timeout: float | None,
    end: Callable[[], object],
    over: asyncio.Future[None],
) -> None:
    """Await ``over``, while ``note`` is called with each of the futures that ends. ``end`` is called at the timeout."""
    timer = None if timeout is None else loop.call_later(timeout, end)
    for future in futures:
        future.add_end_callback(note)
    try:
        await over
    finally:
        if timer is not None:
            timer.cancel()
        for future in futures:
            future.remove_end_callback(note)


def _suffices(ended: AsyncFuture[Any], return_when: str) -> bool:
    """Return whether the wait is over with the end of this future, even if others have not ended."""
    return return_when == FIRST_COMPLETED or (return_when == FIRST_EXCEPTION and ended.is_known_to_have_failed)


def _checked(
    loop: asyncio.AbstractEventLoop, futures: Iterable[AsyncFuture[T]], return_when: str
) -> set[AsyncFuture[T]]:
    if return_when not in (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION):
        raise ValueError(
            f"Cannot wait until {return_when!r}. Use asyncio.ALL_COMPLETED, FIRST_COMPLETED or FIRST_EXCEPTION."
        )
    if asyncio.isfuture(futures):
        raise TypeError("Cannot wait for a single future: wait() takes several. Await it, or put it into a list.")
    waited = set(futures)
    for each in waited:
        if not isinstance(each, AsyncFuture):
            raise TypeError(
                f"Cannot wait for a {type(each).__name__}: wait() takes futures of an AsyncClient. Use asyncio.wait(), "
                "which also takes others and fetches large results."
            )
        if each.get_loop() is not loop:
            raise ValueError(f"Cannot wait for {each!r}: it belongs to another event loop.")
    return waited
