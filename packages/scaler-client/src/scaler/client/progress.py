"""Progress bars, in a terminal or a notebook: those of tqdm, or of rich if tqdm is not installed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from scaler_protocol.messages import MAP_TASKS_UNKNOWN


def wants_progress(progress: bool) -> bool:
    """Return the option ``progress`` of a call. Raises TypeError for anything but True and False."""
    if progress not in (False, True):
        raise TypeError(f"progress must be True or False, not {progress!r}.")
    return bool(progress)


def progress_bar(total: int | None, title: str) -> Any:
    """A context manager whose ``update(n)`` says that ``n`` more tasks ended. Raises ImportError without a library of
    bars. ``total`` is None if it is not known."""
    return require_bars()(total, title)


def require_bars() -> Callable[[int | None, str], Any]:
    """Return what makes a bar of a total and a title. Raises ImportError without a library of bars."""
    if _is_importable("tqdm.auto"):
        return _tqdm_bar
    if _is_importable("rich.progress"):
        return _RichBar
    raise ImportError(
        "Cannot show a progress bar: neither tqdm nor rich is installed. Run pip install 'scaler-client[progress]'."
    )


def _is_importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _tqdm_bar(total: int | None, title: str) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=title, unit="task")


class _RichBar:
    """On stderr, as tqdm's, and with a console of its own: a console shows one bar at a time. In notebooks, rich shows
    nothing without ipywidgets; there the bar is text, whose line is written again as in a terminal."""

    def __init__(self, total: int | None, title: str) -> None:
        from rich import progress
        from rich.console import Console

        columns = (progress.TextColumn("{task.description}", markup=False), progress.BarColumn())
        counts = (progress.MofNCompleteColumn(), progress.TimeElapsedColumn(), progress.TimeRemainingColumn())
        console = Console(stderr=True)
        if console.is_jupyter and not _is_importable("ipywidgets"):
            console = Console(stderr=True, force_jupyter=False, force_terminal=True)
        self._progress = progress.Progress(*columns, *counts, console=console)
        self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> _RichBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.refresh()  # in a notebook, stop() does not show the last state
        self._progress.stop()

    def update(self, count: int) -> None:
        self._progress.advance(self._task, count)


@contextmanager
def progress_of(futures: Sequence[Future[Any]], title: str) -> Iterator[None]:
    """Show how many of the futures have ended, until the context is left. The last ones may be known to a waiting
    thread before their callbacks are called. Cancelled ones count when all is over: what cancels them may leave the
    context with an exception, and then they do not count."""
    lock = threading.Lock()
    counted: set[int] = set()
    is_open, is_left_early = True, True

    def count(future: Future[Any]) -> None:
        with lock:
            if is_open and not future.cancelled():
                show({id(future)})

    def show(ended: set[int]) -> None:
        bar.update(len(ended - counted))
        counted.update(ended)

    def all_ended() -> set[int]:
        return {id(each) for each in different if each.done() and not (is_left_early and each.cancelled())}

    different = {id(future): future for future in futures}.values()
    with progress_bar(len(different), title) as bar:
        try:
            for future in different:
                future.add_done_callback(count)
            yield
            is_left_early = False
        finally:
            with lock:
                is_open = False
                show(all_ended())


def progress_of_results(
    results: Generator[Any, None, None], iterables: Sequence[Iterable[Any]], title: str
) -> Generator[Any, None, None]:
    """Yield the results of a call for each item of the iterables, and show how many there were."""
    try:
        with progress_bar(calls_count(iterables), title) as bar:
            for result in results:
                bar.update(1)
                yield result
    finally:
        results.close()


def calls_count(iterables: Sequence[Iterable[Any]]) -> int | None:
    """Return how many items ``zip`` yields; None if an iterable does not know its length."""
    try:
        lengths = [len(each) for each in iterables if isinstance(each, Sized)]
    except TypeError:  # classes with a length whose objects may have none, as torch's DataLoader
        return None
    return min(lengths) if len(lengths) == len(iterables) else None


def map_tasks_of(iterables: Sequence[Iterable[Any]], calls_per_task: int = 1) -> int:
    """Return how many tasks a map that submits its calls by and by will have, or MAP_TASKS_UNKNOWN."""
    count = calls_count(iterables)
    return MAP_TASKS_UNKNOWN if count is None else min(-(-count // calls_per_task), MAP_TASKS_UNKNOWN)
