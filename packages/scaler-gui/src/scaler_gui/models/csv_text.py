"""Rows as CSV: values themselves, not as screens write them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Return how many rows were written. OSError when the file cannot be."""
    count = 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in rows:
            writer.writerow([_plain(value) for value in row])
            count += 1
    return count


def _plain(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a quote before it: names come from other people."""
    if isinstance(value, str) and value[:1] in "=+-@\t\r" and value:
        return "'" + value
    return value
