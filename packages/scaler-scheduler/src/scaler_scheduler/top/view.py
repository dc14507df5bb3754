"""The view: what its user chose to see. Pressing a key makes another view."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.operation import Action, OperationOutcome
from scaler_protocol.monitor.tables import TABLES
from scaler_protocol.monitor.workers import Order, SortKey
from scaler_scheduler.top.question import Question, question_for

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

PAGES = {
    "1": "overview",
    "t": "running",
    "2": "functions",
    "3": "waits",
    "4": "failures",
    "5": "objects",
    "v": "largest",
    "6": "graphs",
    "7": "stream",
    "8": "tasks",
    "9": "clients",
    "0": "settings",
    "a": "alerts",
    "g": "progress",
    "i": "workers",
    "H": "hosts",
    "o": "output",
    "e": "traffic",
    "y": "logs",
    "A": "actors",
}
"""The pages by their keys. All but overview, workers, stream and output show the table of that name."""

OF_FUNCTIONS = ("functions", "running")
"""Pages on which the key of the output shows that of the chosen function."""

PREVIEWED = ("failures", "waits", "alerts", "logs")
"""Pages that show more of the chosen row below the table."""

DETAILED = (
    *PREVIEWED,
    "running",
    "actors",
    "functions",
    "hosts",
    "objects",
    "largest",
    "graphs",
    "tasks",
    "clients",
    "progress",
    "traffic",
)
"""Pages with a cursor: there is a page of what the chosen row stands for, or there are actions on it."""

STREAM_SECONDS = 20.0
_SHORTEST_STREAM, _LONGEST_STREAM = 0.01, 24 * 3600.0
_SCROLLS = {"up": -1, "k": -1, "down": 1, "j": 1}
_END = 1 << 30
_TRAIL_LIMIT = 100


@dataclass(frozen=True, slots=True)
class TableView:
    """The view of one table. None: the table's own order."""

    sort_key: str | None = None
    descending: bool | None = None
    first_row: int = 0
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class View:
    page: str = "workers"
    order: Order = Order()
    filter_text: str = ""
    editing_filter: bool = False
    help_shown: bool = False
    first_row: int = 0
    """The first worker shown; a screen shows the last page when it is beyond the end."""

    tables: Mapping[str, TableView] = field(default_factory=dict)
    details_of: Hashable = None
    """The group of failures, or of waiting tasks, or the thing whose page fills the screen."""

    link: int | None = None
    """The number of the chosen link there, which goes round."""

    trail: tuple[Hashable, ...] = ()
    """The details from which links have led to these."""

    typed_name: str | None = None
    """The name that is being typed of the thing whose page to open."""

    sought_name: str = ""
    """The name that was typed."""

    first_line: int = 0
    """The first line of the details or the help."""

    stream_seconds: float = STREAM_SECONDS
    stream_back_seconds: float = 0.0
    """Seconds before ``stream_from`` at which the task stream ends."""

    stream_from: float | None = None
    """Unix seconds; None: the task stream follows what happens now."""

    question: Question | None = None
    """The action on the cluster that is being asked for."""

    outcome: OperationOutcome | None = None
    """The outcome of the last action, until the next key."""

    quit: bool = False

    @property
    def table(self) -> TableView:
        """The view of the table of this page."""
        return self.tables.get(self.page, TableView())

    @property
    def is_text(self) -> bool:
        """Whether a text fills the screen."""
        has_report = self.outcome is not None and bool(self.outcome.report)
        return self.help_shown or self.details_of is not None or has_report

    @property
    def is_typing(self) -> bool:
        """Keys are text, or an answer, and have no other meaning."""
        return self.editing_filter or self.question is not None or self.typed_name is not None

    def pressed(
        self, key: str, page_rows: int, selected: Hashable = None, targets: Mapping[Action, str] | None = None
    ) -> View:
        """The view after a key: a character, or the name of one (``up``, ``page down``, ``enter``, ``escape``).
        ``selected`` is what the cursor stands on, ``targets`` are the actions on it."""
        if self.outcome is not None and self.outcome.report:
            return self._turned(key, page_rows, replace(self, outcome=None, first_line=0))
        if self.outcome is not None:
            return replace(self, outcome=None).pressed(key, page_rows, selected, targets)
        if self.question is not None:
            return replace(self, question=self.question.pressed(key))
        if self.editing_filter:
            return self._edited(key)
        if self.typed_name is not None:
            return self._named(key, self.typed_name)
        if self.help_shown:
            return self._turned(key, page_rows, replace(self, help_shown=False, first_line=0))
        if key == ":":
            return replace(self, typed_name="")
        question = question_for(self.page if self.details_of is None else None, key, targets or {})
        if question is not None:
            return replace(self, question=question)
        if self.details_of is not None and key not in PAGES:
            return self._read(key, page_rows, selected)
        function = (targets or {}).get(ControlAction.CANCEL_FUNCTION, "")
        shows_its_output = PAGES.get(key) == "output" and self.page in OF_FUNCTIONS
        return self._commanded(key, page_rows, selected, function if shows_its_output else "")

    def limited(self, last_first_row: int, rows: int = _END) -> View:
        """The same view, not scrolled beyond the end; ``rows`` is how many the table has."""
        if self.is_text:
            return replace(self, first_line=max(0, min(self.first_line, last_first_row)))
        if self.page == "workers":
            return replace(self, first_row=max(0, min(self.first_row, last_first_row)))
        table = self.table
        first = max(0, min(table.first_row, last_first_row))
        return self._with_table(replace(table, first_row=first, cursor=max(0, min(table.cursor, rows - 1))))

    def stream_stop(self, now: float) -> float:
        """The moment at which the task stream ends."""
        return min(now, (now if self.stream_from is None else self.stream_from) - self.stream_back_seconds)

    def showing_stream_at(self, moment: float) -> View:
        """The task stream, with this moment in its middle."""
        shown = replace(self, stream_from=moment + self.stream_seconds / 2, stream_back_seconds=0.0)
        return shown._turned_to("stream")

    def standing_still(self, now: float) -> View:
        """The same view, in which the task stream stands still if it was moved to the past, and otherwise follows."""
        if self.stream_from is None:
            return replace(self, stream_from=now) if self.stream_back_seconds > 0 else self
        return self if self.stream_stop(now) < now else replace(self, stream_from=None, stream_back_seconds=0.0)

    # ---- keys ----------------------------------------------------------------------------------------------------

    def _commanded(self, key: str, page_rows: int, selected: Hashable, filter_text: str) -> View:
        if key in PAGES:
            turned = self._turned_to(PAGES[key])
            return replace(turned, filter_text=filter_text) if filter_text else turned
        if key in ("tab", "backtab"):
            names = list(PAGES.values())
            return self._turned_to(names[(names.index(self.page) + (1 if key == "tab" else -1)) % len(names)])
        if key == "q":
            return replace(self, quit=True)
        if key == "?":
            return replace(self, help_shown=True, first_line=0)
        if key == "/":
            return replace(self, editing_filter=True)
        if key == "escape":
            return replace(self._unfiltered(), stream_from=None, stream_back_seconds=0.0)
        return self._paged(key, page_rows, selected)

    def _paged(self, key: str, page_rows: int, selected: Hashable) -> View:
        """Keys that mean something else on each page."""
        if self.page == "workers":
            if key in SORT_KEYS:
                return replace(self, order=self.order.pressed(SORT_KEYS[key]), first_row=0)
            return self._scrolled(key, page_rows)
        if self.page == "overview":
            return self
        if self.page == "stream":
            return self._zoomed(key, page_rows)
        if key == "enter" and selected is not None and self.page in DETAILED:
            return self.showing(selected)
        if self.page == "output":
            return self._turned_back(key, page_rows)
        if key in ("s", "S", "r"):
            return self._sorted(key)
        return self._moved(key, page_rows)

    def _turned_back(self, key: str, page_rows: int) -> View:
        """Lines of output are counted from the newest one."""
        table = self.table
        return self._with_table(replace(table, first_row=max(0, table.first_row - _step(key, page_rows))))

    def _turned_to(self, page: str) -> View:
        """Another page; a filter is for the page where it was typed."""
        same = page == self.page
        filter_text = self.filter_text if same else ""
        return replace(self, page=page, filter_text=filter_text, details_of=None, link=None, trail=(), first_line=0)

    def _unfiltered(self) -> View:
        cleared = replace(self, filter_text="", first_row=0)
        return (
            cleared
            if self.page in ("workers", "overview")
            else cleared._with_table(replace(self.table, first_row=0, cursor=0))
        )

    def _sorted(self, key: str) -> View:
        """Sort by the next column, the one before, or in the opposite order."""
        spec, table = TABLES[self.page], self.table
        keys = [column.key for column in spec.columns]
        now = table.sort_key or spec.default_sort
        descending = spec.descending if table.descending is None else table.descending
        if key == "r":
            return self._with_table(replace(table, sort_key=now, descending=not descending, first_row=0, cursor=0))
        chosen = keys[(keys.index(now) + (1 if key == "s" else -1)) % len(keys)]
        text = spec.columns[spec.index(chosen)].kind == "text"
        return self._with_table(TableView(chosen, not text))

    def _zoomed(self, key: str, page_rows: int) -> View:
        seconds, back = self.stream_seconds, self.stream_back_seconds
        if key in ("+", "="):
            return self._spanning(max(_SHORTEST_STREAM, seconds / 2))
        if key == "-":
            return self._spanning(min(_LONGEST_STREAM, seconds * 2))
        if key in ("h", "["):
            return replace(self, stream_back_seconds=back + seconds / 4)
        if key in ("l", "]"):
            return replace(self, stream_back_seconds=back - seconds / 4 if self.stream_from is not None else 0.0)
        return self._moved(key, page_rows)

    def _spanning(self, seconds: float) -> View:
        """The task stream with another span of time; while it stands still, its middle stays where it is."""
        later = (seconds - self.stream_seconds) / 2 if self.stream_from is not None else 0.0
        return replace(self, stream_seconds=seconds, stream_back_seconds=self.stream_back_seconds - later)

    def _scrolled(self, key: str, page_rows: int) -> View:
        return replace(self, first_row=max(0, self.first_row + _step(key, page_rows)))

    def _moved(self, key: str, page_rows: int) -> View:
        """The cursor moves, and the rows with it when it would leave them."""
        table, step = self.table, _step(key, page_rows)
        if self.page not in DETAILED:
            return self._with_table(replace(table, first_row=max(0, table.first_row + step)))
        cursor = max(0, table.cursor + step)
        first = min(max(table.first_row, cursor - page_rows + 1), cursor)
        return self._with_table(replace(table, first_row=first, cursor=cursor))

    def _turned(self, key: str, page_rows: int, closed: View) -> View:
        """A text that fills the screen: keys that scroll do so, others close it."""
        if key == "q":
            return replace(self, quit=True)
        step = _step(key, page_rows)
        return replace(self, first_line=max(0, self.first_line + step)) if step else closed

    def showing(self, details_of: Hashable) -> View:
        """The page of a thing. Esc leads back to what is shown now."""
        trail = self.trail if self.details_of is None else (*self.trail, self.details_of)[-_TRAIL_LIMIT:]
        return replace(self, details_of=details_of, trail=trail, link=None, first_line=0)

    def _read(self, key: str, page_rows: int, selected: Hashable) -> View:
        """Details fill the screen, and ``selected`` is the chosen one of their links."""
        if key == "tab":
            return replace(self, link=0 if self.link is None else self.link + 1)
        if key == "backtab":
            return replace(self, link=-1 if self.link is None else self.link - 1)
        if key == "enter" and selected is not None:
            return self.showing(selected)
        before = self.trail[-1] if self.trail else None
        closed = replace(self, details_of=before, trail=self.trail[:-1], link=None, first_line=0)
        return self._turned(key, page_rows, closed)

    def _named(self, key: str, typed: str) -> View:
        if key == "enter":
            return replace(self, typed_name=None, sought_name=typed)
        if key == "escape":
            return replace(self, typed_name=None)
        if key == "backspace":
            return replace(self, typed_name=typed[:-1])
        return replace(self, typed_name=typed + key) if len(key) == 1 and key.isprintable() else self

    def _edited(self, key: str) -> View:
        if key == "enter":
            return replace(self, editing_filter=False)
        if key == "escape":
            return replace(self._unfiltered(), editing_filter=False)
        if key == "backspace":
            return replace(self._unfiltered(), filter_text=self.filter_text[:-1])
        if len(key) == 1 and key.isprintable():
            return replace(self._unfiltered(), filter_text=self.filter_text + key)
        return self

    def _with_table(self, table: TableView) -> View:
        return replace(self, tables={**self.tables, self.page: table})


def _step(key: str, page_rows: int) -> int:
    steps = {**_SCROLLS, "page up": -page_rows, "page down": page_rows, "home": -_END, "end": _END}
    return steps.get(key, 0)
