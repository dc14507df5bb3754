"""Progress bars: tqdm's, in a terminal or a notebook."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future
from contextlib import contextmanager
from operator import methodcaller
from typing import Any

from scaler_protocol.messages import MAP_TASKS_UNKNOWN


def wants_progress(progress: bool) -> bool:
    """Return the option ``progress`` of a call. Raises TypeError for anything but True and False."""
    if progress not in (False, True):
        raise TypeError(f"progress must be True or False, not {progress!r}.")
    return bool(progress)


def progress_bar(total: int | None, title: str) -> Any:
    """A context manager whose ``update(n)`` says that ``n`` more tasks ended. Raises ImportError without tqdm.
    ``total`` is None if it is not known."""
    return require_tqdm()(total=total, desc=title, unit="task")


def require_tqdm() -> Any:
    """Return the class of tqdm's bars. Raises ImportError without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            "Cannot show a progress bar: tqdm is not installed. Run pip install 'scaler-client[progress]'."
        ) from None
    return tqdm


@contextmanager
def progress_of(futures: Sequence[Future[Any]], title: str) -> Iterator[None]:
    """Show how many of the futures have ended, until the context is left. The last ones may be known to a waiting
    thread before their callbacks are called."""
    lock = threading.Lock()
    counted: set[int] = set()
    is_open = True

    def count(future: Future[Any]) -> None:
        with lock:
            if is_open:
                show({id(future)})

    def show(ended: set[int]) -> None:
        bar.update(len(ended - counted))
        counted.update(ended)

    different = {id(future): future for future in futures}.values()
    with progress_bar(len(different), title) as bar:
        try:
            for future in different:
                future.add_done_callback(count)
            yield
        finally:
            with lock:
                is_open = False
                show(set(map(id, filter(methodcaller("done"), different))))


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
