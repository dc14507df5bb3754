"""The docks: panes that can be moved, tabbed, floated and hidden; only those in sight are refreshed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QByteArray, QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QTabBar, QTabWidget, QWidget

from scaler_gui.views.pane import Pane
from scaler_gui.views.panes import CORNERS

LEFT_SHARE = 0.56
"""The part of the window's width that the panes on the left have at first."""

LAYOUT_VERSION = 3
"""A saved layout of another version is not restored."""

_SEPARATOR_PIXELS = 20
"""More than is between two columns."""


class Docks(QMainWindow):
    """``current`` is the pane that was used last."""

    current_changed = Signal(str)

    def __init__(self, panes: Sequence[Pane]) -> None:
        super().__init__()
        self.setWindowFlags(Qt.WindowType.Widget)
        self.setDockOptions(
            QMainWindow.DockOption.AllowNestedDocks
            | QMainWindow.DockOption.AllowTabbedDocks
            | QMainWindow.DockOption.GroupedDragging
        )
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self.setAnimated(False)
        self._titles = QTimer(self, singleShot=True, interval=0)
        self._titles.timeout.connect(self.show_titles)
        self._left_share: float | None = LEFT_SHARE  # of the width; None: that of the restored layout
        self._sharing = QTimer(self, singleShot=True, interval=0)
        self._sharing.timeout.connect(self._keep_share)
        self._seen: set[str] = set()
        self._stale: set[str] = set()
        self.panes = {pane.name: pane for pane in panes}
        self.docks = {pane.name: self._dock(pane) for pane in panes}
        self.current = panes[0].name
        self._stale.update(self.panes)
        self.arrange()
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus)

    # ---- refreshing --------------------------------------------------------------------------------------------

    def refresh(self, only_events: bool = False) -> None:
        """Panes in sight read the model; the others when they come into sight."""
        for name, pane in self.panes.items():
            if only_events and not pane.shows_events:
                continue
            if self.is_seen(name):
                pane.refresh()
                self._stale.discard(name)
            else:
                self._stale.add(name)

    def replaced(self) -> None:
        for name, pane in self.panes.items():
            self._stale.add(name)
            if self.is_seen(name):
                pane.replaced()
                self._stale.discard(name)

    def is_seen(self, name: str) -> bool:
        """Not hidden, not behind another tab, not minimized."""
        return name in self._seen and self.docks[name].isVisible() and not self.window().isMinimized()

    # ---- going from pane to pane -------------------------------------------------------------------------------

    def go_to(self, name: str) -> None:
        """Bring the pane into sight, with the keyboard in it."""
        dock = self.docks[name]
        dock.show()
        dock.raise_()
        self._set_current(name)
        self.panes[name].focus()

    def go_on(self, steps: int) -> None:
        """Go to the next pane that is not hidden, in the order of their keys."""
        names = [name for name, dock in self.docks.items() if not dock.isHidden() or name == self.current]
        place = names.index(self.current) if self.current in names else 0
        self.go_to(names[(place + steps) % len(names)])

    @property
    def current_pane(self) -> Pane:
        return self.panes[self.current]

    # ---- layout ------------------------------------------------------------------------------------------------

    def arrange(self) -> None:
        """Arrange the panes as they were at first."""
        for dock in self.docks.values():
            dock.setFloating(False)
            self.removeDockWidget(dock)
        firsts = {corner: self.docks[names[0]] for corner, names in CORNERS.items()}
        self.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, firsts["top left"])
        self.splitDockWidget(firsts["top left"], firsts["top right"], Qt.Orientation.Horizontal)
        self.splitDockWidget(firsts["top left"], firsts["bottom left"], Qt.Orientation.Vertical)
        self.splitDockWidget(firsts["top right"], firsts["bottom right"], Qt.Orientation.Vertical)
        for corner, names in CORNERS.items():
            for name in names[1:]:
                self.tabifyDockWidget(firsts[corner], self.docks[name])
        for dock in self.docks.values():
            dock.show()
        for first in firsts.values():
            first.raise_()
        self.share_out()

    def layout_state(self) -> QByteArray:
        return self.saveState(LAYOUT_VERSION)

    def restore_layout(self, state: QByteArray) -> bool:
        is_restored = self.restoreState(state, LAYOUT_VERSION)
        if is_restored:
            self._left_share = None
        return is_restored

    def share_out(self) -> None:
        """The room of the window, among the first layout's corners."""
        firsts = {corner: self.docks[names[0]] for corner, names in CORNERS.items()}
        width, height = self.width(), self.height()
        self._left_share = LEFT_SHARE
        self._share_width(width)
        for side in ("left", "right"):
            pair = [firsts[f"top {side}"], firsts[f"bottom {side}"]]
            self.resizeDocks(pair, [height // 2, height // 2], Qt.Orientation.Vertical)

    def show_titles(self) -> None:
        """A view behind a tab has its title there; only one that stands alone needs a bar for it."""
        for dock in self.docks.values():
            bare = bool(self.tabifiedDockWidgets(dock)) and not dock.isFloating()
            if bare is (dock.titleBarWidget() is None):
                dock.setTitleBarWidget(QWidget() if bare else None)  # type: ignore[arg-type]
        for bar in self.findChildren(QTabBar):
            if bar.elideMode() != Qt.TextElideMode.ElideNone:  # each change asks for a new layout, which leads here
                bar.setElideMode(Qt.TextElideMode.ElideNone)
                bar.setUsesScrollButtons(True)

    def event(self, event: QEvent) -> bool:
        """Docks have been moved when the layout asks for a new one, or when the mouse has dragged what is between
        them."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._titles.start()
        is_done = super().event(event)
        if event.type() == QEvent.Type.MouseButtonRelease:
            self._left_share = self._shown_share()
        return is_done

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._sharing.start()

    def _keep_share(self) -> None:
        """Share out a new width as before. A window that was very small would otherwise leave no room on the right when
        it grows."""
        if self._left_share is None:
            self._left_share = self._shown_share()
        elif self._shown_share() is not None:
            self._share_width(self.width())

    def _share_width(self, width: int) -> None:
        assert self._left_share is not None
        left = round(width * self._left_share)
        self.resizeDocks(self._columns(), [left, width - left], Qt.Orientation.Horizontal)

    def _shown_share(self) -> float | None:
        """Return the part of the width that the left has; None if the docks are not in two columns, as at first."""
        left, right = self._columns()
        if left.isFloating() or right.isFloating() or left.isHidden() or right.isHidden():
            return None
        widths = left.width(), right.width()
        is_whole = left.x() == 0 and right.x() > left.x() and abs(self.width() - sum(widths)) < _SEPARATOR_PIXELS
        return widths[0] / sum(widths) if is_whole else None

    def _columns(self) -> list[QDockWidget]:
        return [self.docks[CORNERS[corner][0]] for corner in ("top left", "top right")]

    def _dock(self, pane: Pane) -> QDockWidget:
        dock = QDockWidget(pane.title)
        dock.setObjectName(pane.name)
        dock.setWidget(pane)
        dock.visibilityChanged.connect(lambda seen, name=pane.name: self._on_seen(name, seen))
        return dock

    def _on_seen(self, name: str, seen: bool) -> None:
        (self._seen.add if seen else self._seen.discard)(name)
        if seen and name in self._stale:
            self._stale.discard(name)
            self.panes[name].refresh()

    def _on_focus(self, before: QWidget | None, now: QWidget | None) -> None:
        while now is not None:
            if isinstance(now, Pane) and self.panes.get(now.name) is now:
                self._set_current(now.name)
                return
            now = now.parentWidget()

    def _set_current(self, name: str) -> None:
        if name != self.current:
            self.current = name
            self.current_changed.emit(name)
