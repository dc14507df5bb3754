"""The task stream under keys and mouse."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QHelpEvent, QKeyEvent, QMouseEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip

from scaler_gui.models import stream_cursor, stream_rows
from scaler_gui.models.tips import plain_tip
from scaler_gui.monitor import Monitor
from scaler_gui.views.stream_drawing import StreamDrawing

_WHEEL_FACTOR = 0.8
_STEPS = {Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0), Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1)}
"""The steps of the arrow keys, in tasks and rows."""


class StreamCanvas(StreamDrawing):
    """``task_chosen`` gives the number of a task that was double-clicked; ``moved`` says that the part of time in sight
    may be another one."""

    task_chosen = Signal(int)
    moved = Signal()

    def __init__(self, monitor: Monitor) -> None:
        super().__init__(monitor)
        self._pressed: QPointF | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def look(self) -> None:
        super().look()
        self.moved.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        self.look()

    def focusInEvent(self, event: Any) -> None:  # noqa: N802
        self.update()

    def focusOutEvent(self, event: Any) -> None:  # noqa: N802
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        shown, key = self.window_shown, event.key()
        page = max(1, self.area().height() // shown.row_height)
        shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if key in _STEPS and not shifted:
            self._walk(*_STEPS[Qt.Key(key)])
            return
        rows = {
            Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -page, Qt.Key.Key_PageDown: page,
        }  # fmt: skip
        actions = {
            Qt.Key.Key_Left: lambda: shown.pan(-0.2), Qt.Key.Key_Right: lambda: shown.pan(0.2),
            Qt.Key.Key_Return: self._open, Qt.Key.Key_Enter: self._open,
            Qt.Key.Key_Plus: lambda: shown.zoom(0.5, self._anchor()),
            Qt.Key.Key_Equal: lambda: shown.zoom(0.5, self._anchor()),
            Qt.Key.Key_Minus: lambda: shown.zoom(2.0, self._anchor()), Qt.Key.Key_End: shown.follow,
            Qt.Key.Key_Escape: self._leave, Qt.Key.Key_Home: shown.go_to_oldest, Qt.Key.Key_F: shown.fit,
            Qt.Key.Key_BracketLeft: lambda: shown.resize_rows(-1),
            Qt.Key.Key_BracketRight: lambda: shown.resize_rows(1),
        }  # fmt: skip
        if key in rows:
            shown.scroll_rows(rows[Qt.Key(key)], page, len(self.rows))
        elif key in actions:
            actions[Qt.Key(key)]()
        else:
            super().keyPressEvent(event)
            return
        self.look()

    def _anchor(self) -> float:
        """Keys zoom about the chosen task, or the newest while it is followed, else about the middle."""
        shown = self.window_shown
        if self.cursor_bar() is not None:
            return min(max((self.chosen.middle - shown.start) / shown.span_seconds, 0.0), 1.0)
        return 1.0 if shown.follows else 0.5

    # ---- the chosen task -----------------------------------------------------------------------------------------

    def _walk(self, along: int, across: int) -> None:
        """Go to the task before or after, or to that of another worker at the same time."""
        bar = self._look_for_bar()
        if bar is None or self.bars is None:
            self._choose(self._newest())
        elif across:
            self._walk_rows(across)
        else:
            other = stream_cursor.neighbor(self.bars, bar, along)
            self._choose(int(self.bars.serials[other]) if other is not None else self._beyond(along))

    def _look_for_bar(self) -> int | None:
        """The bar of the chosen task, which is brought into sight. None: there is no such task."""
        if self.chosen.worker is None or not self.chosen.choose(self.monitor.model, self.chosen.serial):
            return None
        self._show_cursor()
        return self.cursor_bar()

    def _newest(self) -> int | None:
        self.read()
        bar = stream_cursor.newest(self.bars) if self.bars is not None else None
        return int(self.bars.serials[bar]) if bar is not None and self.bars is not None else None

    def _beyond(self, along: int) -> int | None:
        assert self.chosen.worker is not None
        oldest, newest = self.window_shown.limits
        moment, limit = (self.chosen.start, oldest) if along < 0 else (self.chosen.end, newest)
        return stream_cursor.beyond(self.monitor.model, self.chosen.worker, moment + along * 1e-6, along, limit)

    def _walk_rows(self, across: int) -> None:
        """Rows without a task in sight are passed over."""
        places = [row.worker_index for row in self.rows]
        place = places.index(self.chosen.worker) if self.chosen.worker in places else 0
        shown, width = self.window_shown, max(1, int(self.area().width() * self.devicePixelRatioF()))
        pixel = (self.chosen.middle - shown.start) / shown.span_seconds * width
        for row in range(place + across, len(places) if across > 0 else -1, across):
            bars = self.monitor.model.bars(shown.start, shown.end, width, [places[row]])
            bar = stream_cursor.nearest(bars, 0, pixel)
            if bar is not None:
                self._choose(int(bars.serials[bar]))
                return

    def _choose(self, serial: int | None) -> None:
        if serial is not None and self.chosen.choose(self.monitor.model, serial):
            self._show_cursor()

    def _show_cursor(self) -> None:
        """Bring the chosen task into sight; what is newest is not followed any more."""
        shown, chosen = self.window_shown, self.chosen
        shown.follows = False
        if chosen.end < shown.start or chosen.start > shown.end:
            shown.end = chosen.middle + shown.span_seconds / 2
        for place, row in enumerate(self.rows):
            if row.worker_index == chosen.worker:
                shown.show_row(place, max(1, self.area().height() // shown.row_height))
        self.look()
        self.read()
        self.setAccessibleDescription(self.cursor_text())

    def _open(self) -> None:
        found = self.monitor.model.log.row(self.chosen.serial) if self.cursor_bar() is not None else None
        if found is not None:
            self.task_chosen.emit(found[0])

    def _leave(self) -> None:
        """No task is chosen; the newest is followed."""
        self.chosen.clear()
        self.setAccessibleDescription("")
        self.window_shown.follow()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        area, steps = self.area(), (event.angleDelta().y() or event.angleDelta().x()) / 120
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.window_shown.resize_rows(1 if steps > 0 else -1)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.window_shown.scroll_rows(-3 * steps, area.height() // self.window_shown.row_height, len(self.rows))
        elif event.angleDelta().x() and not event.angleDelta().y():
            self.window_shown.pan(-0.1 * steps)
        else:
            self.window_shown.zoom(_WHEEL_FACTOR**steps, (event.position().x() - area.left()) / area.width())
        self.look()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._pressed = event.position()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.marked = (event.position().x(), event.position().x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._pressed is None:
            return
        area, moved = self.area(), event.position() - self._pressed
        if self.marked is not None:
            self.marked = (self.marked[0], event.position().x())
            self.update()
            return
        self.window_shown.pan(-moved.x() / area.width())
        self._pressed = event.position()
        self.look()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        marked, self.marked, self._pressed = self.marked, None, None
        if marked is not None and abs(marked[1] - marked[0]) > 3:
            area, shown = self.area(), self.window_shown
            times = [shown.start + (x - area.left()) / area.width() * shown.span_seconds for x in sorted(marked)]
            shown.show(*times)
        self.look()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        bar = self._bar_at(event.position().toPoint())
        task = None if bar is None or self.bars is None else stream_rows.task_of(self.monitor.model, self.bars, bar)
        if task is not None:
            self.task_chosen.emit(task)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tip(self.text_at(event.pos())), self)
            return True
        return super().event(event)

    def text_at(self, position: QPoint) -> str:
        """The description of the bar there; empty if there is none."""
        bar = self._bar_at(position)
        if bar is not None and self.bars is not None:
            return stream_rows.tip(self.monitor.model, self.bars, bar)
        running = stream_rows.open_bar_at(self.open_bars, *self._place_of(position))
        return stream_rows.open_tip(running) if running is not None else ""

    def _bar_at(self, position: QPoint) -> int | None:
        if self.bars is None or not self.area().contains(position):
            return None
        return stream_rows.bar_at(self.bars, *self._place_of(position))

    def _place_of(self, position: QPoint) -> tuple[int, float]:
        """The row in sight, and the pixel of the bars."""
        area = self.area()
        row = (position.y() - area.top()) // self.window_shown.row_height
        return row, (position.x() - area.left()) * self.devicePixelRatioF()
