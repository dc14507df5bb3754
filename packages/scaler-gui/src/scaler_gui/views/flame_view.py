"""A flame graph: a bar for each call, as wide as the time that it took, below the call that made it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QToolTip, QWidget

from scaler_gui.models.tips import plain_tip
from scaler_protocol.monitor.format import format_percent, format_span

ROW_HEIGHT = 20
_LEAST_WIDTH = 1.5
_TEXT_WIDTH = 30
_DEPTH_LIMIT = 250


class FlameBar(NamedTuple):
    call: dict[str, Any]
    rectangle: QRectF
    path: tuple[str, ...]
    """The names of the calls around it, and its own."""


class FlameView(QWidget):
    """``root``: calls as ``profile_report.nested`` makes them. A click zooms in; Escape zooms out."""

    def __init__(self, root: dict[str, Any]) -> None:
        super().__init__()
        self._root = root
        self._path: tuple[str, ...] = ()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Flame graph")
        self.setMinimumHeight(ROW_HEIGHT * (1 + min(_DEPTH_LIMIT, _depth(root))))

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(1000, self.minimumHeight())

    def bars(self) -> list[FlameBar]:
        """Return the visible bars, at the present width."""
        found: list[FlameBar] = []
        call, width = self._root, float(self.width())
        for depth, name in enumerate(self._path):
            found.append(FlameBar(call, QRectF(0, depth * ROW_HEIGHT, width, ROW_HEIGHT - 1), self._path[:depth]))
            call = next(each for each in call["children"] if each["name"] == name)
        found.extend(_level(call, 0.0, width, len(self._path), self._path))
        return found

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        for bar in self.bars():
            painter.fillRect(bar.rectangle.adjusted(0, 0, -1, 0), _colour(bar.call["name"]))
            if bar.rectangle.width() > _TEXT_WIDTH:
                painter.setPen(QColor("#1b1b1b"))
                inner = bar.rectangle.adjusted(4, 0, -4, 0)
                name = painter.fontMetrics().elidedText(
                    bar.call["name"], Qt.TextElideMode.ElideRight, int(inner.width())
                )
                painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter, name)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        bar = self._bar_at(event.position())
        if bar is not None:
            self._zoom(bar.path)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape and self._path:
            self._zoom(())
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            bar = self._bar_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), plain_tip(self.tip(bar.call)) if bar is not None else "", self)
            return True
        return super().event(event)

    def tip(self, call: dict[str, Any]) -> str:
        share = 100 * call["us"] / max(1, self._root["us"])
        return f"{call['name']}\n{format_span(call['us'] / 1e6)}, {format_percent(share)}"

    def _zoom(self, path: tuple[str, ...]) -> None:
        self._path = path
        self.update()

    def _bar_at(self, point: QPointF) -> FlameBar | None:
        return next((bar for bar in self.bars() if bar.rectangle.contains(point)), None)


def _level(call: dict[str, Any], left: float, width: float, depth: int, path: tuple[str, ...]) -> Iterator[FlameBar]:
    """Yield the bar of a call, and those of the calls in it."""
    ahead = [(call, left, width, depth, path)]
    while ahead:
        call, left, width, depth, path = ahead.pop()
        yield FlameBar(call, QRectF(left, depth * ROW_HEIGHT, width, ROW_HEIGHT - 1), path)
        for child in call["children"]:
            wide = width * child["us"] / max(1, call["us"])
            if wide >= _LEAST_WIDTH:
                ahead.append((child, left, wide, depth + 1, (*path, child["name"])))
            left += wide


def _depth(root: dict[str, Any]) -> int:
    deepest, ahead = 0, [(root, 0)]
    while ahead:
        call, depth = ahead.pop()
        deepest = max(deepest, depth)
        ahead.extend((child, depth + 1) for child in call["children"])
    return deepest


def _colour(name: str) -> QColor:
    hue = 20 + zlib.crc32(name.encode()) % 40 + (150 if "site-packages" in name else 0)
    return QColor.fromHsl(hue % 360, 200, 172)
