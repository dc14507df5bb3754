"""Progress bars of calls that coroutines await."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scaler.asynchronous.future import AsyncFuture
from scaler.client.progress import calls_count, progress_bar


@contextmanager
def progress_of_tasks(futures: Iterable[AsyncFuture[Any]], title: str) -> Iterator[None]:
    """Show how many of the tasks have ended, until the context is left. This fetches no large results. Cancelled ones
    count as in ``scaler.client.progress.progress_of``."""
    different = dict.fromkeys(futures)
    shown = 0

    def show(ended: int) -> None:
        nonlocal shown
        shown += ended
        bar.update(ended)

    def note(future: AsyncFuture[Any]) -> None:
        if is_open and not future.cancelled():
            show(1)

    def all_ended() -> int:
        left_out = [each for each in unfinished if is_left_early and each.cancelled()]
        return sum(each.is_known_to_have_ended for each in different) - len(left_out)

    is_open, is_left_early = True, True
    unfinished = [each for each in different if not each.is_known_to_have_ended]
    with progress_bar(len(different), title) as bar:
        show(len(different) - len(unfinished))
        for future in unfinished:
            future.add_end_callback(note)
        try:
            yield
            is_left_early = False
        finally:
            is_open = False  # the calls of some callbacks may have been scheduled
            for future in unfinished:
                future.remove_end_callback(note)
            show(all_ended() - shown)


async def progress_of_results(
    results: AsyncGenerator[Any, None], iterables: Sequence[Iterable[Any]], title: str
) -> AsyncGenerator[Any, None]:
    """Yield the results of a call for each item of the iterables, and show how many there were."""
    try:
        with progress_bar(calls_count(iterables), title) as bar:
            async for result in results:
                bar.update(1)
                yield result
    finally:
        await results.aclose()
