"""Bars of a task stream, as many as pixels can show (contract; the code is task_stream.pyx)."""

from collections.abc import Sequence

from scaler_protocol.monitor.task_log import TaskLog

SUCCEEDED, FAILED, CANCELED = 0, 1, 2
"""Classes of statuses."""

class Bars:
    """Columns of equal length. Bars of one row are in the order of their starts, so that the bar of an actor
    comes before those of its calls."""

    rows: memoryview  # u32: position in the sequence of rows that was asked for
    x0: memoryview  # f32: pixels from the left edge
    x1: memoryview  # f32
    functions: memoryview  # u32: of the longest task in the bar
    statuses: memoryview  # u8: SUCCEEDED, FAILED or CANCELED: the worst in the bar
    counts: memoryview  # u32: how many tasks the bar stands for
    busy: memoryview  # f32: what part of the bar's time was spent in tasks, 0 to 1
    serials: memoryview  # u64: of the longest task in the bar, for ``TaskLog.row``
    tasks: int
    """The number of tasks of these rows in the requested time."""

    def __len__(self) -> int: ...
    def wide(self, least_pixels: float, limit: int) -> list[int]:
        """The first ``limit`` bars that stand for a single task and are at least so wide."""

def bars(log: TaskLog, start_us: int, stop_us: int, width: int, workers: Sequence[int]) -> Bars:
    """The bars that ``width`` pixels show of the time from ``start_us`` to ``stop_us``, a row for each of ``workers``.
    Tasks that are narrower than a pixel are merged with their neighbours: no more than 2 * width + 1 bars come out for
    each row, however many tasks there are. Where a worker runs several tasks at a time, each that is wider than a pixel
    has a bar of its own."""
