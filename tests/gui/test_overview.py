"""The overview in the window: its numbers in any width, its charts no oftener than they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from scaler_gui.models.overview import figures, series
from scaler_gui.theme import DARK, LIGHT
from scaler_gui.views.figure_row import FigureRow
from scaler_gui.views.overview import CHARTS

if TYPE_CHECKING:
    from scaler_gui.main_window import MainWindow


class Paintings(QObject):
    """Counts those of a widget."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        self.count += event.type() == QEvent.Type.Paint
        return False


def numbers(window: MainWindow) -> list[QLabel]:
    found = window.docks.panes["overview"].findChildren(QLabel)
    return [label for label in found if label.property("role") == "number"]


def test_numbers_are_whole_in_wide_and_narrow_windows(busy_window: MainWindow, qtbot: QtBot) -> None:
    for width, height in ((1440, 900), (1280, 800), (900, 600), (700, 500), (1, 1)):
        busy_window.resize(width, height)
        busy_window.docks.share_out()
        busy_window.docks.refresh()
        qtbot.wait(1)
        pane = busy_window.docks.panes["overview"]
        assert pane.width() < 0.65 * busy_window.width(), "there is room for the views beside it"
        for label in numbers(busy_window):
            assert label.width() >= label.sizeHint().width()
            assert label.mapTo(pane, label.rect().topRight()).x() <= pane.width()


def test_a_figure_says_what_it_means_now_and_reads_no_name_as_markup(busy_window: MainWindow) -> None:
    pane = busy_window.docks.panes["overview"]
    pane.refresh()
    shown = figures(busy_window.monitor.model)
    assert [label.parentWidget().toolTip() for label in numbers(busy_window)] == [each.help for each in shown]
    row = FigureRow(shown)
    row.show_figures([shown[0]._replace(help="no worker has <img src=x>")])
    assert "&lt;img src=x&gt;" in row.findChildren(QLabel)[0].parentWidget().toolTip()


def test_charts_are_painted_once_when_they_change(busy_window: MainWindow, qtbot: QtBot) -> None:
    pane = busy_window.docks.panes["overview"]
    charts = pane._charts.values()  # type: ignore[attr-defined]
    pane.refresh()
    qtbot.wait(50)
    paintings = Paintings()
    for chart in charts:
        chart._plot.viewport().installEventFilter(paintings)
    for _ in range(3):
        pane._state.touch()  # type: ignore[attr-defined]
        pane.refresh()
        qtbot.wait(50)
    assert 0 < paintings.count <= 3 * len(charts)


def test_the_values_of_a_narrow_chart_have_names(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.resize(1024, 768)
    busy_window.docks.share_out()
    qtbot.wait(50)
    pane = busy_window.docks.panes["overview"]
    pane._state.touch()  # type: ignore[attr-defined]
    pane.refresh()
    chart = pane._charts["memory"]  # type: ignore[attr-defined]
    text = chart._title.text()
    assert all(f"{line.name} " in text for line in series(busy_window.monitor.model, "memory", 0.0)), text
    assert chart._title.sizeHint().width() <= chart._title.width()


def test_the_lines_of_a_chart_differ_in_colour(busy_window: MainWindow) -> None:
    most = max(len(series(busy_window.monitor.model, chart, 0.0)) for chart in CHARTS)
    assert all(len(set(theme.series)) == len(theme.series) >= most for theme in (LIGHT, DARK))


def test_figures_that_grow_get_room_in_another_row(busy_window: MainWindow) -> None:
    shown = figures(busy_window.monitor.model)
    row = FigureRow(shown)
    row.resize(row._needed(-(-len(shown) // 2)), 100)
    row.show()
    assert row._columns == -(-len(shown) // 2)
    (workers,) = (each for each in shown if each.title == "busy workers")
    row.show_figures([workers._replace(text=f"{workers.text}, 2 paused")])
    assert row._columns < -(-len(shown) // 2) and row._needed(row._columns) <= row.width()
    row.close()
