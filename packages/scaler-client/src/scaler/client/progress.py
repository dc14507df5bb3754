"""Progress bars: tqdm's, in a terminal or a notebook."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any


def progress_bar(total: int, title: str) -> Any:
    """A context manager whose ``update(n)`` says that ``n`` more tasks ended. Raises ImportError without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            "Cannot show a progress bar: tqdm is not installed. Run pip install 'scaler-client[progress]'."
        ) from None
    return tqdm(total=total, desc=title, unit="task")


@contextmanager
def progress_of(futures: Sequence[Future[Any]], title: str) -> Iterator[None]:
    """Show how many of the futures have ended, until the context is left."""
    lock = threading.Lock()
    is_open = True

    def count(_: Future[Any]) -> None:
        with lock:
            if is_open:
                bar.update(1)

    with progress_bar(len(futures), title) as bar:
        try:
            for future in futures:
                future.add_done_callback(count)
            yield
        finally:
            with lock:
                is_open = False
