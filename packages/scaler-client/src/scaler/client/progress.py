"""The progress bar of a map: tqdm's, in a terminal or a notebook."""

from __future__ import annotations

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
