"""The view: what its user chose to see. Pressing a key makes another view."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaler_protocol.monitor.workers import Order, SortKey

SORT_KEYS = {
    "n": SortKey.WORKER,
    "C": SortKey.AGENT_CPU,
    "M": SortKey.AGENT_RSS,
    "c": SortKey.CPU,
    "m": SortKey.RSS,
    "f": SortKey.FREE,
    "w": SortKey.SENT,
    "d": SortKey.QUEUED,
    "l": SortKey.LAG,
}

HELP = (
    ("n C M c m f w d l", "sort by this column; the same key again turns the order"),
    ("/", "show only workers whose pid, host, name or state contains a text"),
    ("Enter, Esc", "keep the filter, drop the filter"),
    ("up, down, j, k", "scroll by one worker"),
    ("PgUp, PgDn, Home, End", "scroll by a page, to the first, to the last"),
    ("?", "this help"),
    ("q", "quit"),
)

COLUMN_HELP = (
    ("worker", "pid, host and name of the processor"),
    ("agt_cpu, agt_rss", "processor time and memory of its agent"),
    ("cpu, rss", "its own processor time and memory"),
    ("free, sent", "queue slots left; tasks handed over and unfinished"),
    ("queued", "tasks waiting at its agent"),
    ("lag", "latency between scheduler and agent"),
    ("ITL", "initialized, has a task, slot lent to a nested task"),
)

_SCROLLS = {"up": -1, "k": -1, "down": 1, "j": 1}
_END = 1 << 30


@dataclass(frozen=True, slots=True)
class View:
    order: Order = Order()
    filter_text: str = ""
    editing_filter: bool = False
    help_shown: bool = False
    first_row: int = 0
    """The first worker shown; a screen shows the last page when it is beyond the end."""

    quit: bool = False

    def pressed(self, key: str, page_rows: int) -> View:
        """The view after a key: a character, or the name of one (``up``, ``page down``, ``enter``, ``escape``)."""
        if self.editing_filter:
            return self._edited(key)
        if self.help_shown:
            return replace(self, help_shown=False, quit=key == "q")
        return self._commanded(key, page_rows)

    def limited(self, last_first_row: int) -> View:
        """The same view, not scrolled beyond the end."""
        return replace(self, first_row=max(0, min(self.first_row, last_first_row)))

    def _commanded(self, key: str, page_rows: int) -> View:
        if key in SORT_KEYS:
            return replace(self, order=self.order.pressed(SORT_KEYS[key]), first_row=0)
        if key == "q":
            return replace(self, quit=True)
        if key == "?":
            return replace(self, help_shown=True)
        if key == "/":
            return replace(self, editing_filter=True)
        if key == "escape":
            return replace(self, filter_text="", first_row=0)
        return self._scrolled(key, page_rows)

    def _scrolled(self, key: str, page_rows: int) -> View:
        steps = {**_SCROLLS, "page up": -page_rows, "page down": page_rows, "home": -_END, "end": _END}
        return replace(self, first_row=max(0, self.first_row + steps.get(key, 0)))

    def _edited(self, key: str) -> View:
        if key == "enter":
            return replace(self, editing_filter=False)
        if key == "escape":
            return replace(self, editing_filter=False, filter_text="", first_row=0)
        if key == "backspace":
            return replace(self, filter_text=self.filter_text[:-1], first_row=0)
        if len(key) == 1 and key.isprintable():
            return replace(self, filter_text=self.filter_text + key, first_row=0)
        return self
