"""The visible part of the task stream: a span of time and some of the rows."""

from __future__ import annotations

SHORTEST_SECONDS = 20e-6
LONGEST_SECONDS = 30 * 86_400.0
DEFAULT_SPAN_SECONDS = 30.0
ROW_HEIGHTS = (3, 5, 8, 12, 16, 22, 30, 44)
"""Pixels of a row, from many workers at once to few in large."""

_LEAST_READABLE = 16


class StreamWindow:
    """A span of time that may follow the newest, and a position among the rows. Moving the span by hand ends the
    following; moving it to the newest end starts it again."""

    def __init__(self) -> None:
        self.span_seconds = DEFAULT_SPAN_SECONDS
        self.end = 0.0
        self.follows = True
        self.first_row = 0.0
        self._height_index = ROW_HEIGHTS.index(22)
        self._fits_rows = True
        self._oldest = 0.0
        self._newest = 0.0

    @property
    def start(self) -> float:
        return self.end - self.span_seconds

    @property
    def row_height(self) -> int:
        return ROW_HEIGHTS[self._height_index]

    def set_data(self, oldest: float, newest: float) -> None:
        """Set the available span of time."""
        self._oldest, self._newest = oldest, newest
        if self.follows:
            self.end = newest

    def zoom(self, factor: float, anchor: float = 1.0) -> None:
        """Show ``factor`` times the span; what is at ``anchor`` (0 left, 1 right) stays in its place."""
        before = self.span_seconds
        self.span_seconds = min(max(before * factor, SHORTEST_SECONDS), LONGEST_SECONDS)
        if not self.follows:
            self.end += (self.span_seconds - before) * (1.0 - anchor)
        elif anchor < 0.9:
            self.follows = False
            self.end += (self.span_seconds - before) * (1.0 - anchor)
        self._limit()

    def pan(self, fraction: float) -> None:
        """Move by a fraction of the span: negative to older times."""
        self.end += fraction * self.span_seconds
        self.follows = self.end >= self._newest and fraction > 0
        self._limit()

    def show(self, start: float, end: float) -> None:
        """Exactly this span, as drawn with the mouse."""
        self.span_seconds = max(end - start, SHORTEST_SECONDS)
        self.end = start + self.span_seconds
        self.follows = False

    def fit(self) -> None:
        """All that there is."""
        self.span_seconds = min(max((self._newest - self._oldest) * 1.02, SHORTEST_SECONDS), LONGEST_SECONDS)
        self.follow()

    def follow(self) -> None:
        self.follows = True
        self.end = self._newest

    def go_to_oldest(self) -> None:
        self.follows = False
        self.end = self._oldest + self.span_seconds * 0.98

    def resize_rows(self, steps: int) -> None:
        """Taller rows with positive ``steps``. From then on their height is left as it is."""
        self._fits_rows = False
        self._height_index = min(max(self._height_index + steps, 0), len(ROW_HEIGHTS) - 1)

    def fit_rows(self, rows: int, height: int) -> None:
        """Make rows as tall as ``height`` pixels allow, but legible, until the user has chosen their height."""
        if self._fits_rows:
            fitting = [index for index, each in enumerate(ROW_HEIGHTS) if each * rows <= height]
            self._height_index = max([ROW_HEIGHTS.index(_LEAST_READABLE), *fitting])

    def scroll_rows(self, rows: float, visible_rows: float, all_rows: int) -> None:
        self.first_row = min(max(self.first_row + rows, 0.0), max(0.0, all_rows - visible_rows))

    @property
    def limits(self) -> tuple[float, float]:
        """The oldest and the newest moment that there is."""
        return self._oldest, self._newest

    def show_row(self, row: int, visible_rows: int) -> None:
        """Scroll as little as is needed to see a row."""
        self.first_row = min(max(self.first_row, float(row - visible_rows + 1)), float(row))

    def _limit(self) -> None:
        """Keep at least a corner of the drawing in sight."""
        least = self._oldest + self.span_seconds * 0.02
        self.end = max(self.end, least) if self._oldest else self.end
        if self.start > self._newest - self.span_seconds * 0.02:
            self.end = self._newest + self.span_seconds * 0.98
