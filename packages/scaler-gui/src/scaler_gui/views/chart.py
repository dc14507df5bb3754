"""A chart over time: one or more lines, axes that write times and values as all screens do."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy
import pyqtgraph
from PySide6.QtCore import QEvent, QObject, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from scaler_gui.models.time_axis import ticks
from scaler_gui.theme import Theme
from scaler_protocol.monitor.format import format_value
from scaler_protocol.monitor.history import outages

_TICK_PIXELS = 90
_VALUE_TICK_PIXELS = 24
_MARGIN = 1.12
_LEAST_TOP = {"percent": 100.0, "bytes": 1024.0 * 1024, "rate": 10.0, "count": 10.0}


class Line(NamedTuple):
    name: str
    times: Sequence[float]
    values: Sequence[float]


class Chart(QWidget):
    """Shows a span that ends now, until its user moves it; ``moved`` tells the others that share the span."""

    moved = Signal(float, float)

    def __init__(self, title: str, kind: str) -> None:
        super().__init__()
        self._clock = _ClockAxis("bottom")
        self._scale = _ValueAxis(kind)
        self._plot = pyqtgraph.PlotWidget(axisItems={"bottom": self._clock, "left": self._scale})
        self._title = QLabel()
        self._title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._title.setContentsMargins(10, 4, 0, 0)
        self._plot.installEventFilter(self)
        self._plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # keys are the pane's: all charts move together
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._title)
        box.addWidget(self._plot, 1)
        self.chart_title, self._kind = title, kind
        self._curves: dict[str, Any] = {}
        self._lines: Sequence[Line] = ()
        self._theme: Theme | None = None
        self._moving = False
        self._written: tuple[Any, ...] = ()
        self._folded = (0, 0)
        self._set_up_plot()
        self.setAccessibleName(title)

    def show_lines(self, lines: Sequence[Line], start: float, end: float) -> None:
        self._lines = lines
        for number, line in enumerate(lines):
            times, values = _broken(*_decimated(line, start, end, self._plot.width()))
            self._curve(line.name, number).setData(times, values, connect="finite")
        self._moving = True
        self._plot.plotItem.setXRange(start, end, padding=0)
        self._plot.plotItem.setYRange(0, self._top(start, end), padding=0)
        self._moving = False
        self._plot.scene().prepareForPaint()  # else the first painting moves the lines, and asks for a second one
        self._show_title()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._plot.setBackground(theme.surface)
        for axis in (self._clock, self._scale):
            axis.setPen(pyqtgraph.mkPen(theme.border))
            axis.setTextPen(pyqtgraph.mkPen(theme.muted))
        for number, curve in enumerate(self._curves.values()):
            self._colour(curve, number)
        self._show_title()

    def _set_up_plot(self) -> None:
        plot = self._plot.plotItem
        plot.setMenuEnabled(False)
        plot.hideButtons()
        plot.setMouseEnabled(x=True, y=False)
        plot.getViewBox().sigXRangeChanged.connect(self._on_range)
        plot.setContentsMargins(2, 2, 10, 2)
        self._scale.setWidth(62)
        for axis in (self._clock, self._scale):
            axis.enableAutoSIPrefix(False)  # it would rewrite the title at every step, and axes have none
        self._mark = pyqtgraph.InfiniteLine(angle=90, movable=False)
        self._mark.hide()
        plot.addItem(self._mark, ignoreBounds=True)
        plot.showGrid(x=False, y=True, alpha=0.18)
        self._plot.scene().sigMouseMoved.connect(self._on_mouse)

    def _curve(self, name: str, number: int) -> Any:
        if name not in self._curves:
            self._curves[name] = self._plot.plotItem.plot(antialias=True)
            self._colour(self._curves[name], number)
        return self._curves[name]

    def _colour(self, curve: Any, number: int) -> None:
        if self._theme is None:
            return
        colour = QColor(self._theme.series[number % len(self._theme.series)])
        curve.setPen(pyqtgraph.mkPen(colour, width=1.6))
        if number == 0:
            colour.setAlpha(38)
            curve.setFillLevel(0)
            curve.setBrush(pyqtgraph.mkBrush(colour))

    def _top(self, start: float, end: float) -> float:
        highest = max((_highest(line, start, end) for line in self._lines), default=0.0)
        return max(highest * _MARGIN, _LEAST_TOP.get(self._kind, 1.0))

    def _on_range(self, _: Any, span: tuple[float, float]) -> None:
        if not self._moving:
            self.moved.emit(*span)

    def _on_mouse(self, position: QPointF) -> None:
        moment = self._plot.plotItem.getViewBox().mapSceneToView(position).x()
        self._mark.setValue(moment)
        self._mark.show()
        self._show_title(moment)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Leave:
            self._mark.hide()
            self._show_title()
        return super().eventFilter(watched, event)

    def _show_title(self, moment: float | None = None) -> None:
        """The title with the values at a moment, or the newest. Where names and values do not fit in a line, they take
        two or three; without room for these, the values stand alone. In the same width there are never fewer lines than
        before, so that the chart keeps its height when numbers change."""
        if self._theme is None:
            return
        values = [(line.name, self._text(_value_at(line, moment))) for line in self._lines]
        state = (self._theme, values, self._title.width())
        if state == self._written:
            return
        self._written = state
        names = [f"{name} {text}" for name, text in values]
        width, folds = self._title.width(), _folds(len(values))
        texts = [
            self._coloured(names),
            f"<small>{self._coloured(names)}</small>",
            *(f"<small>{self._coloured(names, fold)}</small>" for fold in folds),
            f"<small>{self._coloured([text for _, text in values])}</small>",
        ]
        start = min(self._folded[1], len(texts) - 2) if self._folded[0] == width else 0
        for place in range(start, len(texts)):
            self._title.setText(texts[place])
            self._folded = (width, place)
            if self._title.sizeHint().width() <= width:
                break
        self._title.setToolTip(", ".join(names))

    def _text(self, value: float) -> str:
        return format_value(self._kind, round(value) if self._kind == "count" else value)

    def _coloured(self, parts: Sequence[str], fold: Sequence[int] = ()) -> str:
        """The title and these parts. ``fold``: the places of those that begin a new line."""
        assert self._theme is not None
        series = self._theme.series
        spans = [f"<span style='color:{series[place % len(series)]}'>{text}</span>" for place, text in enumerate(parts)]
        lines = [spans[first:stop] for first, stop in pairwise((0, *fold, len(spans)))]
        lines[0] = [f"<b style='color:{self._theme.text}'>{self.chart_title}</b>", *lines[0]]
        return "<br>".join("&nbsp; ".join(line) for line in lines)


@functools.cache
def _folds(count: int) -> list[tuple[int, ...]]:
    """Return the ways to break so many parts into two lines, the one with the fullest first line first, and into three,
    the most even one first."""
    into_two = [(first,) for first in range(count - 1, 0, -1)]
    into_three = sorted(
        combinations(range(1, count), 2),
        key=lambda fold: max(fold[0] + 1, fold[1] - fold[0], count - fold[1]),  # the title stands in the first line
    )
    return [*into_two, *into_three]


class _Axis(pyqtgraph.AxisItem):
    """Draws at once: the library keeps a picture of an axis, which takes longer to play, and is used but once."""

    def paint(self, painter: QPainter, option: Any, widget: QWidget | None) -> None:
        painter.save()
        parts = self.generateDrawSpecs(painter)
        if parts is not None:
            self.drawPicture(painter, *parts)
        painter.restore()


class _ClockAxis(_Axis):
    """Local times."""

    def tickValues(self, least: float, most: float, size: float) -> list[tuple[float, list[float]]]:  # noqa: N802
        self._labels = {tick.time: tick.label for tick in ticks(least, most, max(2, int(size / _TICK_PIXELS)))}
        return [(1.0, list(self._labels))]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        return [self._labels.get(value, "") for value in values]


class _ValueAxis(_Axis):
    """Values of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__("left")
        self._kind = kind

    def tickValues(self, least: float, most: float, size: float) -> list[tuple[float, list[float]]]:  # noqa: N802
        step = _round_step((most - least) / max(1, int(size / _VALUE_TICK_PIXELS)), self._kind)
        return [(step, [step * number for number in range(int(most / step) + 1)])]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:  # noqa: N802
        return [_axis_text(self._kind, value) for value in values]


def _round_step(least: float, kind: str) -> float:
    if kind == "bytes":
        step = 1.0
        while step < least:
            step *= 2
        return step
    power = 1.0
    while power * 10 <= least:
        power *= 10
    return max(1.0, next((power * factor for factor in (1, 2, 5, 10) if power * factor >= least), power * 10))


def _axis_text(kind: str, value: float) -> str:
    """Shorter than in tables: ``50k`` in place of ``50,000``."""
    if kind in ("count", "rate"):
        for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= size:
                return f"{value / size:g}{unit}"
        return f"{value:g}"
    return f"{value:g}%" if kind == "percent" else format_value(kind, value)


def _decimated(line: Line, start: float, end: float, width: int) -> tuple[Any, Any]:
    """The visible samples and one more on each side, reduced to the highest of each pixel."""
    times, values = numpy.asarray(line.times, float), numpy.asarray(line.values, float)
    first, last = numpy.searchsorted(times, (start, end))
    times, values = times[max(0, first - 1) : last + 1], values[max(0, first - 1) : last + 1]
    step = len(times) // max(200, width)
    if step < 2:
        return times, values
    whole = len(times) // step * step
    return times[:whole:step], values[:whole].reshape(-1, step).max(axis=1)


def _broken(times: Any, values: Any) -> tuple[Any, Any]:
    """Return the line with a moment without a value in each outage, where the line ends."""
    places = [place + 1 for place in outages(times.tolist())]
    if not places:
        return times, values
    return numpy.insert(times, places, times[[place - 1 for place in places]] + 1.0), numpy.insert(
        values, places, numpy.nan
    )


def _highest(line: Line, start: float, end: float) -> float:
    times, values = numpy.asarray(line.times, float), numpy.asarray(line.values, float)
    first, last = numpy.searchsorted(times, (start, end))
    seen = values[max(0, first - 1) : last + 1]
    return float(seen.max()) if seen.size else 0.0


def _value_at(line: Line, moment: float | None) -> float:
    if not len(line.times):
        return 0.0
    if moment is None:
        return line.values[-1]
    place = int(numpy.searchsorted(numpy.asarray(line.times, float), moment))
    return line.values[min(place, len(line.values) - 1)]
