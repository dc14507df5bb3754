"""The terminal: paints a screen with curses, and turns what the user types into names of keys. Nothing else here."""

from __future__ import annotations

import contextlib
import curses
import functools
import locale
import os
import select
import termios
from collections.abc import Iterator, Sequence

from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.palette import TERMINAL_COLOURS
from scaler_scheduler.top.lines import FunctionColour, Line, Style

_KEY_NAMES = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_PPAGE: "page up",
    curses.KEY_NPAGE: "page down",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_ENTER: "enter",
    curses.KEY_BACKSPACE: "backspace",
    curses.KEY_LEFT: "left",
    curses.KEY_RIGHT: "right",
    curses.KEY_BTAB: "backtab",
}
_CHARACTER_NAMES = {
    "\n": "enter",
    "\r": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
    "\t": "tab",
}

_COLOURS = {
    Style.GOOD: curses.COLOR_GREEN,
    Style.WARNING: curses.COLOR_YELLOW,
    Style.BAD: curses.COLOR_RED,
    Style.ALARM: curses.COLOR_RED,
    Style.TITLE: curses.COLOR_CYAN,
    Style.HEADING: curses.COLOR_CYAN,
    Style.CHOSEN: curses.COLOR_CYAN,
}
_FEW_COLOURS = (
    curses.COLOR_BLUE,
    curses.COLOR_YELLOW,
    curses.COLOR_GREEN,
    curses.COLOR_MAGENTA,
    curses.COLOR_CYAN,
)
"""Colours for functions, where there are not 256 to choose from."""

_ATTRIBUTES = {
    Style.PLAIN: curses.A_NORMAL,
    Style.TITLE: curses.A_BOLD,
    Style.DIM: curses.A_DIM,
    Style.HEADER: curses.A_REVERSE,
    Style.SORTED: curses.A_REVERSE | curses.A_BOLD,
    Style.HEADING: curses.A_NORMAL,
    Style.CHOSEN: curses.A_REVERSE,
    Style.GOOD: curses.A_NORMAL,
    Style.WARNING: curses.A_NORMAL,
    Style.BAD: curses.A_BOLD,
    Style.ALARM: curses.A_BOLD | curses.A_REVERSE,
    Style.LINK: curses.A_UNDERLINE,
}
_ESCAPE_DELAY_MILLISECONDS = 25
_OUTPUT = 1


class Terminal:
    """A context manager that restores the terminal at its end. It raises ``TerminalError`` if it cannot draw."""

    def __enter__(self) -> Terminal:
        curses.set_escdelay(_ESCAPE_DELAY_MILLISECONDS)
        try:
            curses.setupterm()
            _check_places_text()
            self._window = curses.initscr()
        except curses.error as error:
            raise TerminalError(f"Cannot use this terminal: {error}") from None
        try:
            self._prepare()
        except BaseException:
            curses.endwin()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self.takes_more:
            _let_go_on()
        try:
            self._clear_last_line()
        except curses.error:  # the terminal is gone
            pass
        curses.endwin()

    @property
    def takes_more(self) -> bool:
        """False while its user holds it (Ctrl-S), or nothing reads the painted output: painting would wait."""
        poll = select.poll()
        poll.register(_OUTPUT, select.POLLOUT)
        return bool(poll.poll(0))

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        lines, columns = self._window.getmaxyx()
        return columns, lines

    @property
    def shows_blocks(self) -> bool:
        """Whether blocks and colours look right here; otherwise letters do."""
        utf8 = locale.nl_langinfo(locale.CODESET).upper() in ("UTF-8", "UTF8")
        return utf8 and len(self._function_attributes) > 1

    def follow_size(self) -> None:
        """Take over the size that the terminal has now."""
        size = os.get_terminal_size(0)
        if (size.columns, size.lines) != self.size and size.columns > 0 and size.lines > 0:
            curses.resizeterm(size.lines, size.columns)
            self._window.clear()

    def paint(self, lines: Sequence[Line]) -> None:
        self._window.erase()
        for number, line in enumerate(lines):
            self._paint_line(number, line)
        self._window.refresh()

    def typed(self) -> Iterator[str]:
        """The input typed since the last call: characters, and names of other keys. Never waits."""
        while True:
            try:
                typed = self._window.get_wch()
            except curses.error:
                return
            if isinstance(typed, int):
                yield _KEY_NAMES.get(typed, "")
            else:
                yield _CHARACTER_NAMES.get(typed, typed)

    def _clear_last_line(self) -> None:
        """A terminal without a second screen goes on there."""
        self._window.move(self._window.getmaxyx()[0] - 1, 0)
        self._window.clrtoeol()
        self._window.refresh()

    def _prepare(self) -> None:
        curses.noecho()
        curses.cbreak()
        self._window.keypad(True)
        self._window.nodelay(True)
        _try_hide_cursor()
        self._attributes = dict(_ATTRIBUTES)
        self._function_attributes = [curses.A_NORMAL]
        if curses.has_colors():
            self._add_colours()

    def _add_colours(self) -> None:
        curses.start_color()
        curses.use_default_colors()
        for number, (style, colour) in enumerate(_COLOURS.items(), 1):
            curses.init_pair(number, colour, -1)
            self._attributes[style] |= curses.color_pair(number)
        self._function_attributes = self._function_colours(len(_COLOURS) + 1)

    def _function_colours(self, first_pair: int) -> list[int]:
        colours = TERMINAL_COLOURS if curses.COLORS >= 256 else _FEW_COLOURS
        for number, colour in enumerate(colours, first_pair):
            curses.init_pair(number, colour, -1)
        return [curses.color_pair(number) for number in range(first_pair, first_pair + len(colours))]

    def _attribute(self, style: Style | FunctionColour) -> int:
        if isinstance(style, FunctionColour):
            return self._function_attributes[style.number % len(self._function_attributes)]
        return self._attributes[style]

    def _paint_line(self, number: int, line: Line) -> None:
        column = 0
        for text, style, _ in line:
            text = encodable(text, self._window.encoding)
            try:
                self._window.addstr(number, column, text, self._attribute(style))
            except curses.error:  # the last cell of the last line cannot be left without scrolling; it is painted
                return
            column = self._window.getyx()[1] if self._window.getyx()[0] == number else column + len(text)


class TerminalError(Exception):
    """One plain sentence."""


def encodable(text: str, encoding: str) -> str:
    """The text as wide as it is, with ``?`` for what this encoding does not have: the terminal would show nothing, or
    anything."""
    if text.isascii():
        return text
    return "".join(each if _has(encoding, each) else "?" * display_width(each) for each in text)


@functools.cache
def _has(encoding: str, character: str) -> bool:
    try:
        return bool(character.encode(encoding))
    except UnicodeEncodeError:
        return False


def _check_places_text() -> None:
    """``dumb``, say, which editors and scripts set, knows only the end of a line."""
    if curses.tigetstr("cup") is None:
        name = os.environ.get("TERM", "")
        raise TerminalError(
            f"Cannot use this terminal: TERM is {name}, which cannot position text. "
            "Set TERM to the type of the terminal, or use --json."
        )


def _let_go_on() -> None:
    """Restore the terminal, even if its user holds it (Ctrl-S)."""
    with contextlib.suppress(termios.error):
        termios.tcflow(_OUTPUT, termios.TCOOFF)  # Linux ends with TCOON only what began with TCOOFF, and a user's hold
        termios.tcflow(_OUTPUT, termios.TCOON)


def _try_hide_cursor() -> None:
    try:
        curses.curs_set(0)
    except curses.error:  # this terminal always shows it
        pass
