"""Draws the task stream: a row for each worker, a bar for each task, as many as there are pixels."""

from __future__ import annotations

from typing import Any

import numpy
from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QImage,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QScrollBar, QWidget

from scaler_gui.models import stream_rows
from scaler_gui.models.stream_cursor import StreamCursor
from scaler_gui.models.stream_image import ink, paint, stretched
from scaler_gui.models.stream_window import StreamWindow
from scaler_gui.models.time_axis import span_text, ticks
from scaler_gui.monitor import Monitor
from scaler_gui.theme import LIGHT, Theme
from scaler_protocol.monitor.bar_parts import BarPart
from scaler_protocol.monitor.model import StreamRow
from scaler_protocol.monitor.open_bars import OpenBar
from scaler_protocol.monitor.palette import (
    CANCELED_COLOUR,
    FAILED_COLOUR,
    PART_TINTS,
    function_colour,
    text_colour,
)
from scaler_protocol.monitor.running import STUCK
from scaler_protocol.monitor.task_stream import CANCELED, FAILED, Bars

_LEGEND_HEIGHT = 26
_AXIS_HEIGHT = 24
_LABEL_WIDTH_MOST = 190
_TICK_PIXELS = 110
_NAMES_FROM_PIXELS = 46
_NAMES_FROM_HEIGHT = 16
_NAMES_MOST = 400
_MARKS_MOST = 300
OPEN_ALPHA = 0.22
"""The opacity of the bars of running tasks."""

_STATUS_COLOURS = {FAILED: FAILED_COLOUR, CANCELED: CANCELED_COLOUR}
_LEGEND_MOST = 10
_PARTS_FROM_PIXELS = 12
_PARTS_FROM_HEIGHT = 5
_FOLLOW_PIXELS = 140
"""Room for the span and the button that follows the newest."""


class StreamDrawing(QWidget):
    """Draws the task stream; ``StreamCanvas`` moves it. :meth:`look` reads and draws again."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self.monitor = monitor
        self.window_shown = StreamWindow()
        self.chosen = StreamCursor()
        self.bars: Bars | None = None
        """The bars that were painted last."""

        self.open_bars: list[OpenBar] = []
        """The bars of running tasks."""

        self.parts: list[BarPart] = []
        """The parts of executions inside bars that are wide enough."""

        self.rows: list[StreamRow] = []
        self._labels: list[str] = []
        self._labels_width = 40
        self._theme: Theme = LIGHT
        self._image: QImage | None = None
        self._pixels: Any = None  # what the image shows; it must live as long
        self.marked: tuple[float, float] | None = None
        self._scroll = QScrollBar(Qt.Orientation.Vertical, self)
        self._scroll.valueChanged.connect(self._on_scroll)
        self.setMinimumSize(260, 120)
        self.setAccessibleName("Task stream")
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def refresh(self) -> None:
        """Look at the model again."""
        model, now = self.monitor.model, self.monitor.now
        first = model.log.row(model.log.first)
        oldest = (first[1] - first[2]) / 1e6 if first is not None else now - self.window_shown.span_seconds
        self.window_shown.set_data(oldest, now)
        self._read_rows(model.stream_rows(self.window_shown.start, self.window_shown.end))
        self.look()

    def _read_rows(self, rows: list[StreamRow]) -> None:
        if rows != self.rows:
            self.rows, self._labels = rows, stream_rows.labels(rows)
            metrics = self.fontMetrics()
            self._labels_width = max((metrics.horizontalAdvance(label) for label in self._labels[:200]), default=40)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.look()

    # ---- places ------------------------------------------------------------------------------------------------

    def area(self) -> QRect:
        """Return where bars are."""
        left = min(_LABEL_WIDTH_MOST, self._labels_width + 18)
        right = self._scroll.sizeHint().width()
        return QRect(
            left, _LEGEND_HEIGHT, max(1, self.width() - left - right),
            max(1, self.height() - _LEGEND_HEIGHT - _AXIS_HEIGHT),
        )  # fmt: skip

    def _visible(self) -> range:
        """Rows that are seen, the last one perhaps in part."""
        first = int(self.window_shown.first_row)
        count = self.area().height() // self.window_shown.row_height + 1
        return range(first, min(len(self.rows), first + count))

    def look(self) -> None:
        """The contents have changed: read and paint them at the next turn."""
        self._image = None
        self.window_shown.fit_rows(len(self.rows), self.area().height())
        self._set_scroll()
        self.update()

    def read(self) -> None:
        """Read now what is in sight, if something else was before."""
        if self._image is None:
            self._make_image(self.area(), self._visible())

    def _set_scroll(self) -> None:
        area = self.area()
        page = max(1, area.height() // self.window_shown.row_height)
        self._scroll.setGeometry(area.right() + 1, area.top(), self._scroll.sizeHint().width(), area.height())
        self._scroll.blockSignals(True)
        self._scroll.setRange(0, max(0, len(self.rows) - page))
        self._scroll.setPageStep(page)
        self._scroll.setValue(int(self.window_shown.first_row))
        self._scroll.blockSignals(False)
        self._scroll.setVisible(self._scroll.maximum() > 0)
        self.window_shown.first_row = min(self.window_shown.first_row, float(self._scroll.maximum()))

    def _on_scroll(self, value: int) -> None:
        self.window_shown.first_row = float(value)
        self.look()

    # ---- painting ----------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        with QPainter(self) as painter:  # ended in any case: Qt does not survive a painter that outlives its event
            self._paint(painter)

    def _paint(self, painter: QPainter) -> None:
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        area, rows = self.area(), self._visible()
        self.read()
        self._paint_axis(painter, area)
        self._paint_bars(painter, area, rows)
        self._paint_labels(painter, area, rows)
        self._paint_legend(painter, area)
        self._paint_frame(painter, area)
        self._paint_cursor(painter, area)

    def _make_image(self, area: QRect, rows: range) -> None:
        ratio = self.devicePixelRatioF()
        width = max(1, int(area.width() * ratio))
        shown, model = self.window_shown, self.monitor.model
        workers = [self.rows[row].worker_index for row in rows]
        self.bars = model.bars(shown.start, shown.end, width, workers)
        self.open_bars = model.open_bars(shown.start, shown.end, width, workers)
        self.parts = model.bar_parts(self.bars, shown.start, shown.end, width, _PARTS_FROM_PIXELS * ratio)
        number_of = self.monitor.model.activity.colour_number
        lines = paint(self.bars, len(rows), width, ink(self._theme.surface), number_of)
        self._pixels = stretched(lines, max(1, int(shown.row_height * ratio)), self._theme.surface)
        height, wide = self._pixels.shape if rows else (1, 1)
        self._image = (
            QImage(self._pixels.data, wide, height, 4 * wide, QImage.Format.Format_RGB32) if rows else QImage()
        )
        self._image.setDevicePixelRatio(ratio)

    def _paint_bars(self, painter: QPainter, area: QRect, rows: range) -> None:
        if not rows or self._image is None or self.bars is None:
            text = "No task has ended while this window watched." if self.monitor.model.snapshot is not None else ""
            painter.setPen(QColor(self._theme.muted))
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)
            return
        painter.save()
        painter.setClipRect(area)
        painter.drawImage(area.topLeft(), self._image)
        self._paint_parts(painter, area, self.bars)
        self._paint_open_bars(painter, area)
        self._paint_lines(painter, area)
        if self.window_shown.row_height >= _NAMES_FROM_HEIGHT:
            self._paint_names(painter, area, self.bars)
        self._paint_marks(painter, area, self.bars)
        painter.restore()

    def _paint_parts(self, painter: QPainter, area: QRect, bars: Bars) -> None:
        """Fetching, loading and storing have other shades than running."""
        height, ratio = self.window_shown.row_height, self.devicePixelRatioF()
        if height < _PARTS_FROM_HEIGHT:
            return
        tall = height - (1 if height < 12 else 2)
        for part in self.parts:
            left, right = part.x0 / ratio, min(part.x1, bars.x1[part.bar] - 1) / ratio
            box = QRectF(area.left() + left, area.top() + bars.rows[part.bar] * height, right - left, tall)
            painter.fillRect(box, _tint(part.name))

    def _paint_open_bars(self, painter: QPainter, area: QRect) -> None:
        """Running tasks: pale, without a right edge, and with a name where there is room."""
        height, ratio = self.window_shown.row_height, self.devicePixelRatioF()
        tall = max(2, height - (1 if height < 12 else 2))
        font = painter.font()
        font.setPixelSize(max(6, min(12, height - 5)))
        painter.setFont(font)
        for bar in self.open_bars:
            left, right = area.left() + bar.x0 / ratio, area.left() + bar.x1 / ratio
            box = QRectF(left, area.top() + bar.row * height, right - left, tall)
            self._paint_open_bar(painter, box, bar)
            if self.bars is not None:
                first, last = stream_rows.name_room(self.bars, bar)
                room = QRectF(area.left() + first / ratio, box.top(), (last - first) / ratio, tall)
                self._paint_open_name(painter, room, bar)
        painter.setFont(self.font())

    def _paint_open_bar(self, painter: QPainter, box: QRectF, bar: OpenBar) -> None:
        number = self.monitor.model.activity.colours.number_of(bar.running.task.function)
        colour = QColor(function_colour(number))
        edges = box.adjusted(0, 0, 0, -1)
        painter.setPen(colour)
        painter.drawLine(edges.topLeft(), edges.topRight())
        painter.drawLine(edges.bottomLeft(), edges.bottomRight())
        if bar.x0 > 0:
            painter.drawLine(edges.topLeft(), edges.bottomLeft())
        colour.setAlphaF(OPEN_ALPHA)
        painter.fillRect(box, colour)

    def _paint_open_name(self, painter: QPainter, room: QRectF, bar: OpenBar) -> None:
        if self.window_shown.row_height >= _NAMES_FROM_HEIGHT and room.width() >= _NAMES_FROM_PIXELS:
            room = room.adjusted(5, 0, -4, 0)
            name = bar.running.task.function + (f" ({STUCK})" if bar.running.suspicion else "")
            text = painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, int(room.width()))
            painter.setPen(QColor(self._theme.text))
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_names(self, painter: QPainter, area: QRect, bars: Bars) -> None:
        """Paint the names of functions into bars that have room for them, where the tasks were running."""
        ratio, height = self.devicePixelRatioF(), self.window_shown.row_height
        x0, x1 = numpy.frombuffer(bars.x0, numpy.float32) / ratio, stream_rows.open_ends(bars) / ratio
        for part in self.parts:
            if part.name == "storing":
                x1[part.bar] = min(x1[part.bar], part.x0 / ratio)
            else:
                x0[part.bar] = part.x1 / ratio
        alone = numpy.frombuffer(bars.counts, numpy.uint32) == 1
        roomy = numpy.flatnonzero((x1 - x0 >= _NAMES_FROM_PIXELS) & alone)[:_NAMES_MOST]
        font = painter.font()
        font.setPixelSize(min(12, height - 5))
        painter.setFont(font)
        metrics = painter.fontMetrics()
        for bar in roomy.tolist():
            box = QRectF(
                area.left() + x0[bar] + 5, area.top() + bars.rows[bar] * height, x1[bar] - x0[bar] - 9, height - 2
            )
            name = self.monitor.model.activity.function_name(bars.functions[bar])
            painter.setPen(QColor(text_colour(self._bar_colour(name, bars.statuses[bar]))))
            painter.drawText(
                box,
                Qt.AlignmentFlag.AlignVCenter,
                metrics.elidedText(name, Qt.TextElideMode.ElideRight, int(box.width())),
            )
        painter.setFont(self.font())

    def _bar_colour(self, function: str, status: int) -> str:
        if status in _STATUS_COLOURS:
            return _STATUS_COLOURS[status]
        return function_colour(self.monitor.model.activity.colours.number_of(function))

    def _paint_marks(self, painter: QPainter, area: QRect, bars: Bars) -> None:
        """A small triangle over each failure, so that it is found among thousands without its colour."""
        failed = numpy.flatnonzero(numpy.frombuffer(bars.statuses, numpy.uint8) == FAILED)[:_MARKS_MOST]
        height, ratio = self.window_shown.row_height, self.devicePixelRatioF()
        if height < 8:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme.surface), 1))
        painter.setBrush(QColor(self._theme.text))
        for bar in failed.tolist():
            x = area.left() + (bars.x0[bar] + bars.x1[bar]) / 2 / ratio
            y = area.top() + bars.rows[bar] * height
            painter.drawPolygon([QPointF(x - 4, y), QPointF(x + 4, y), QPointF(x, y + 6)])
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_labels(self, painter: QPainter, area: QRect, rows: range) -> None:
        height = self.window_shown.row_height
        font = self.font()
        painter.setFont(font)
        painter.setPen(QColor(self._theme.muted))
        metrics = painter.fontMetrics()
        every = max(1, -(-metrics.height() // height))
        painter.setClipRect(0, area.top(), area.left(), area.height())
        for place, row in enumerate(rows):
            if row % every:
                continue
            text = metrics.elidedText(self._labels[row], Qt.TextElideMode.ElideLeft, area.left() - 14)
            box = QRect(6, area.top() + place * height, area.left() - 12, max(height - 1, metrics.height()))
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, text)
        painter.setClipping(False)

    def _paint_axis(self, painter: QPainter, area: QRect) -> None:
        shown = self.window_shown
        painter.setPen(QColor(self._theme.muted))
        for tick in ticks(shown.start, shown.end, max(2, area.width() // _TICK_PIXELS)):
            x = self._x(tick.time, area)
            if x + painter.fontMetrics().horizontalAdvance(tick.label) / 2 < self.width():
                box = QRectF(x - 60, area.bottom() + 4, 120, _AXIS_HEIGHT - 4)
                painter.drawText(box, Qt.AlignmentFlag.AlignHCenter, tick.label)

    def _paint_lines(self, painter: QPainter, area: QRect) -> None:
        """Paint the lines of the time axis; faint, over the bars."""
        shown, colour = self.window_shown, QColor(self._theme.muted)
        colour.setAlpha(60)
        painter.setPen(colour)
        for tick in ticks(shown.start, shown.end, max(2, area.width() // _TICK_PIXELS)):
            x = round(self._x(tick.time, area))
            painter.drawLine(x, area.top(), x, area.bottom())

    def _paint_legend(self, painter: QPainter, area: QRect) -> None:
        metrics, middle, x = painter.fontMetrics(), _LEGEND_HEIGHT / 2, float(area.left())
        shown = self.window_shown
        tail = span_text(shown.span_seconds) + (", following" if shown.follows else "")
        tail_width = max(metrics.horizontalAdvance(tail) + 12, 0 if shown.follows else _FOLLOW_PIXELS)
        painter.setPen(QColor(self._theme.muted))
        painter.drawText(
            QRectF(area.right() - tail_width, 0, tail_width, _LEGEND_HEIGHT),
            Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, tail,
        )  # fmt: skip
        for colour, name, is_part in self._legend():
            text = metrics.elidedText(name, Qt.TextElideMode.ElideRight, 150)
            width = 16 + metrics.horizontalAdvance(text) + 16
            if x + width > area.right() - tail_width:
                return
            painter.fillRect(QRectF(x, middle - 5, 10, 10), QColor(colour))
            if is_part:
                painter.fillRect(QRectF(x, middle - 5, 10, 10), _tint(name))
            painter.setPen(QColor(self._theme.text))
            painter.drawText(QRectF(x + 16, 0, width, _LEGEND_HEIGHT), Qt.AlignmentFlag.AlignVCenter, text)
            x += width

    def _legend(self) -> list[tuple[str, str, bool]]:
        """Return colours, their names, and whether each is the shade of a part of an execution."""
        if self.bars is None or not (len(self.bars) or self.open_bars):
            return []
        activity = self.monitor.model.activity
        seen = set(self.bars.statuses)
        ends = ((FAILED, FAILED_COLOUR, "failed"), (CANCELED, CANCELED_COLOUR, "cancelled"))
        entries = [(colour, name, False) for status, colour, name in ends if status in seen]
        tinted = {part.name for part in self.parts}
        entries += [(self._theme.accent, name, True) for name in PART_TINTS if name in tinted]
        names = [activity.function_name(each) for each in stream_rows.functions_in(self.bars, _LEGEND_MOST)]
        names += [bar.running.task.function for bar in self.open_bars]
        for name in list(dict.fromkeys(names))[:_LEGEND_MOST]:
            entries.append((function_colour(activity.colours.number_of(name)), name or "?", False))
        return entries

    def _paint_frame(self, painter: QPainter, area: QRect) -> None:
        if self.marked is not None:
            colour = QColor(self._theme.accent)
            colour.setAlpha(60)
            painter.fillRect(
                QRectF(min(self.marked), area.top(), abs(self.marked[1] - self.marked[0]), area.height()), colour
            )
        painter.setPen(QColor(self._theme.border))
        painter.drawLine(area.left(), area.bottom() + 1, area.right(), area.bottom() + 1)
        if self.hasFocus():
            painter.setPen(QColor(self._theme.accent))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def cursor_bar(self) -> int | None:
        """The bar that shows the chosen task; None: it is out of sight."""
        workers = [self.rows[row].worker_index for row in self._visible()]
        if self.bars is None or self.chosen.worker not in workers:
            return None
        pixel = (self._x(self.chosen.middle, self.area()) - self.area().left()) * self.devicePixelRatioF()
        return self.chosen.bar(self.bars, workers.index(self.chosen.worker), pixel)

    def cursor_text(self) -> str:
        """The description of the selected task; empty if there is none, or it is not visible."""
        bar = self.cursor_bar()
        return "" if bar is None or self.bars is None else stream_rows.tip(self.monitor.model, self.bars, bar)

    def _paint_cursor(self, painter: QPainter, area: QRect) -> None:
        bar, bars, ratio = self.cursor_bar(), self.bars, self.devicePixelRatioF()
        if bar is None or bars is None:
            return
        height = self.window_shown.row_height
        left, right = (max(0.0, x / ratio) for x in (bars.x0[bar], bars.x1[bar]))
        box = QRectF(area.left() + left, area.top() + bars.rows[bar] * height, max(3.0, right - left), height)
        painter.setPen(QPen(QColor(self._theme.text), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(box.intersected(QRectF(area)))
        self._paint_details(painter, area, box, self.cursor_text())

    def _paint_details(self, painter: QPainter, area: QRect, box: QRectF, text: str) -> None:
        """Below the bar, or above it where there is more room."""
        bounds = painter.fontMetrics().boundingRect(QRect(0, 0, 600, 600), Qt.AlignmentFlag.AlignLeft, text)
        width, height = bounds.width() + 20, bounds.height() + 14
        left = min(max(box.center().x() - width / 2, area.left()), max(area.left(), area.right() - width))
        below = area.bottom() - box.bottom() >= height or box.top() - height < 0
        top = box.bottom() + 6 if below else box.top() - height - 6
        panel = QRectF(left, min(top, max(0.0, self.height() - height - 2)), width, height)
        painter.setPen(QColor(self._theme.accent))
        painter.setBrush(QColor(self._theme.raised))
        painter.drawRect(panel)
        painter.setPen(QColor(self._theme.text))
        painter.drawText(panel.adjusted(10, 7, -10, -7), Qt.AlignmentFlag.AlignLeft, text)

    def _x(self, moment: float, area: QRect) -> float:
        shown = self.window_shown
        return area.left() + (moment - shown.start) / shown.span_seconds * area.width()


def _tint(part: str) -> QColor:
    """The layer over the colour of the function, for this part of an execution."""
    name, opacity = PART_TINTS[part]
    colour = QColor(name)
    colour.setAlphaF(opacity)
    return colour
