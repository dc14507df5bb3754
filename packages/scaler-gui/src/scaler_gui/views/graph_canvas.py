"""Draws a graph: boxes with names where there is room, dots where there is not."""

from __future__ import annotations

from typing import Any

import numpy
from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTransform,
    QWheelEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from scaler_gui.models.graph_picture import NODE_HEIGHT, NODE_WIDTH, STATES, GraphPicture
from scaler_gui.models.graph_view import Camera
from scaler_gui.models.tips import plain_tip
from scaler_gui.theme import LIGHT, Theme

_TEXT_FROM_SCALE = 17.0
_BOXES_FROM_SCALE = 7.0
_CURVES_UP_TO = 800
_STEP_PIXELS = 60
_WHEEL_STEP = 1.2
_LEGEND_LEFT, _LEGEND_MARGIN, _LEGEND_ROW_HEIGHT = 10, 4, 18

_Array = numpy.ndarray[Any, Any]


class GraphCanvas(QWidget):
    """Arrow keys move, plus and minus zoom, Home shows all."""

    def __init__(self) -> None:
        super().__init__()
        self._picture: GraphPicture | None = None
        self._states: _Array = numpy.zeros(0, numpy.int64)
        self._note = ""
        self._theme: Theme = LIGHT
        self._lines: list[QLineF] = []
        self._curves = QPainterPath()
        self.legend_places: list[tuple[int, int]] = []
        """The left edge and the line of each entry of the legend."""

        self._legend_height = 0
        self._dragged_from: QPointF | None = None
        self.camera = Camera()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumHeight(120)
        self.setAccessibleName("Drawing of the graph")

    def show_picture(self, picture: GraphPicture | None, note: str = "") -> None:
        """Another graph. ``note`` says why there is none."""
        self._picture, self._note = picture, note
        self._lines, self._curves = [], QPainterPath()
        if picture is not None:
            self._states = numpy.zeros(len(picture.tasks), numpy.int64)
            self._make_edges(picture)
        self.camera.fits = True
        self._place_legend()
        self.update()

    def show_states(self, states: _Array) -> None:
        """Return how far the nodes are now."""
        if not numpy.array_equal(states, self._states):
            self._states = states
            self.update()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._place_legend()

    # ---- painting ----------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        with QPainter(self) as painter:  # ended in any case: Qt does not survive a painter that outlives its event
            self._paint(painter)

    def _paint(self, painter: QPainter) -> None:
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        if self._picture is None:
            painter.setPen(QColor(self._theme.muted))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, self._note)
            return
        if self.camera.fits:
            self.camera.fit(self._picture.bounds, self.width(), self.height() - self._legend_height)
        self._paint_edges(painter)
        self._paint_nodes(painter, self._picture)
        self._paint_legend(painter)
        if self.hasFocus():
            painter.setPen(QColor(self._theme.accent))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _paint_edges(self, painter: QPainter) -> None:
        painter.save()
        painter.setTransform(self._transform())
        colour = QColor(self._theme.muted)
        colour.setAlpha(150 if len(self._lines) < 2000 else 60)
        pen = QPen(colour, 1.2 if self.camera.scale > _BOXES_FROM_SCALE else 1.0)
        pen.setCosmetic(True)
        painter.setPen(pen)
        if self._curves.isEmpty():
            painter.drawLines(self._lines)
        else:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.drawPath(self._curves)
        painter.restore()

    def _paint_nodes(self, painter: QPainter, picture: GraphPicture) -> None:
        left, top = self.camera.to_place(0, 0, self.width(), self.height())
        right, bottom = self.camera.to_place(self.width(), self.height(), self.width(), self.height())
        seen = picture.seen(left, top, right, bottom)
        if self.camera.scale < _BOXES_FROM_SCALE:
            self._paint_dots(painter, picture, seen)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = painter.font()
        font.setPixelSize(int(min(13, max(8, self.camera.scale * 0.36))))
        painter.setFont(font)
        for number in seen.tolist():
            self._paint_box(painter, picture, number)

    def _paint_box(self, painter: QPainter, picture: GraphPicture, number: int) -> None:
        scale = self.camera.scale
        x, y = self._pixel(picture.layout.x[number], picture.layout.y[number])
        box = QRectF(x, y - NODE_HEIGHT * scale / 2, NODE_WIDTH * scale, NODE_HEIGHT * scale)
        state = int(self._states[number])
        colour = QColor(self._colours()[state])
        painter.setPen(QPen(colour, 1.4))
        painter.setBrush(QColor(self._theme.surface) if state == 0 else _mixed(colour, self._theme.surface, 0.24))
        painter.drawRoundedRect(box, scale * 0.1, scale * 0.1)
        if scale >= _TEXT_FROM_SCALE:
            painter.setPen(QColor(self._theme.muted if state == 0 else self._theme.text))
            text = painter.fontMetrics().elidedText(
                picture.names[number], Qt.TextElideMode.ElideMiddle, int(box.width() - 8)
            )
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _paint_dots(self, painter: QPainter, picture: GraphPicture, seen: _Array) -> None:
        """One rectangle for each node, without names; drawn state by state."""
        scale, colours = self.camera.scale, self._colours()
        height = max(1.5, NODE_HEIGHT * scale)
        width = max(2.5, NODE_WIDTH * scale)
        pixels_x, pixels_y = self._pixel(picture.layout.x[seen], picture.layout.y[seen])
        states = self._states[seen]
        painter.setPen(Qt.PenStyle.NoPen)
        for state in range(len(STATES)):
            chosen = numpy.flatnonzero(states == state)
            painter.setBrush(QColor(colours[state]))
            places = zip(pixels_x[chosen].tolist(), pixels_y[chosen].tolist(), strict=True)
            painter.drawRects([QRectF(x, y - height / 2, width, height) for x, y in places])

    def _paint_legend(self, painter: QPainter) -> None:
        painter.setFont(self.font())
        top, ascent = self.height() - self._legend_height, painter.fontMetrics().ascent()
        painter.fillRect(0, top, self.width(), self._legend_height, QColor(self._theme.surface))
        counts = numpy.bincount(self._states, minlength=len(STATES)).tolist()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for name, colour, count, (x, row) in zip(STATES, self._colours(), counts, self.legend_places, strict=True):
            middle = top + _LEGEND_MARGIN + (row + 0.5) * _LEGEND_ROW_HEIGHT
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(x, middle - 5, 10, 10), 2, 2)
            painter.setPen(QColor(self._theme.text if count else self._theme.muted))
            painter.drawText(QPointF(x + 15, middle + ascent / 2 - 1), f"{count:,} {name}")

    def _place_legend(self) -> None:
        """Use as many lines as the entries of the legend need. Each entry has room for the largest number that it may
        show, so that nothing moves as numbers grow."""
        metrics, total = self.fontMetrics(), len(self._states)
        self.legend_places = []
        x, row = _LEGEND_LEFT, 0
        for name in STATES:
            width = 15 + metrics.horizontalAdvance(f"{total:,} {name}")
            if self.legend_places and x + width > self.width():
                x, row = _LEGEND_LEFT, row + 1
            self.legend_places.append((x, row))
            x += width + 18
        self._legend_height = 2 * _LEGEND_MARGIN + (row + 1) * _LEGEND_ROW_HEIGHT

    def _colours(self) -> tuple[str, ...]:
        theme = self._theme
        return theme.muted, theme.accent, theme.good, theme.bad, theme.warning

    def _make_edges(self, picture: GraphPicture) -> None:
        x, y = picture.layout.x, picture.layout.y
        starts = zip((x[picture.sources] + NODE_WIDTH).tolist(), y[picture.sources].tolist(), strict=True)
        ends = zip(x[picture.targets].tolist(), y[picture.targets].tolist(), strict=True)
        self._lines = [QLineF(*start, *end) for start, end in zip(starts, ends, strict=True)]
        if len(self._lines) <= _CURVES_UP_TO:
            for line in self._lines:
                self._add_curve(line)

    def _add_curve(self, line: QLineF) -> None:
        bend = max(0.3, abs(line.dx()) * 0.45)
        self._curves.moveTo(line.p1())
        self._curves.cubicTo(line.x1() + bend, line.y1(), line.x2() - bend, line.y2(), line.x2(), line.y2())

    def _transform(self) -> QTransform:
        scale = self.camera.scale
        x, y = self._pixel(0.0, 0.0)
        return QTransform(scale, 0, 0, scale, x, y)

    def _pixel(self, x: Any, y: Any) -> tuple[Any, Any]:
        return self.camera.to_pixels(x, y, self.width(), self.height() - self._legend_height)

    # ---- keys and mouse ----------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = event.key()
        steps = {
            Qt.Key.Key_Left: (_STEP_PIXELS, 0), Qt.Key.Key_Right: (-_STEP_PIXELS, 0),
            Qt.Key.Key_Up: (0, _STEP_PIXELS), Qt.Key.Key_Down: (0, -_STEP_PIXELS),
        }  # fmt: skip
        if key in steps:
            self.camera.pan(*steps[Qt.Key(key)])
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self._zoom(_WHEEL_STEP, QPointF(self.rect().center()))
        elif key == Qt.Key.Key_Minus:
            self._zoom(1 / _WHEEL_STEP, QPointF(self.rect().center()))
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_F):
            self.camera.fits = True
        else:
            super().keyPressEvent(event)
            return
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        self._zoom(_WHEEL_STEP ** (event.angleDelta().y() / 120), event.position())

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._dragged_from = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._dragged_from is not None:
            moved = event.position() - self._dragged_from
            self.camera.pan(moved.x(), moved.y())
            self._dragged_from = event.position()
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._dragged_from = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.camera.fits = True
        self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tip(self._text_at(QPointF(event.pos()))), self)
            return True
        return super().event(event)

    def _text_at(self, position: QPointF) -> str:
        if self._picture is None:
            return ""
        place = self.camera.to_place(position.x(), position.y(), self.width(), self.height() - self._legend_height)
        number = self._picture.node_at(*place)
        if number is None:
            return ""
        return f"{self._picture.names[number]}\ntask {self._picture.tasks[number]}: {STATES[int(self._states[number])]}"

    def _zoom(self, factor: float, at: QPointF) -> None:
        self.camera.zoom(factor, at.x(), at.y(), self.width(), self.height() - self._legend_height)
        self.update()


def _mixed(colour: QColor, ground: str, strength: float) -> QColor:
    other = QColor(ground)
    parts = zip(colour.getRgb()[:3], other.getRgb()[:3], strict=True)  # type: ignore[index]
    return QColor(*(int(one * strength + two * (1 - strength)) for one, two in parts))
