"""The window: menus, keys, the banner for trouble, the docks, the time bar of recordings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QByteArray, QSettings, QSize, Qt, QTimer
from PySide6.QtGui import QAction, QActionGroup, QCloseEvent, QGuiApplication, QKeySequence, QShowEvent
from PySide6.QtWidgets import QFileDialog, QInputDialog, QLabel, QMainWindow, QMenu, QMessageBox, QVBoxLayout, QWidget

from scaler_gui.models import recent
from scaler_gui.models.alerts import FailureAlerts, sentence
from scaler_gui.models.recent import RecentAddress
from scaler_gui.models.status import ConnectionStatus
from scaler_gui.monitor import Monitor
from scaler_gui.notifier import Notifier
from scaler_gui.theme import CHOICES, Theme, apply_theme, theme_of
from scaler_gui.views.banner import Banner
from scaler_gui.views.docks import Docks
from scaler_gui.views.entity_window import EntityWindow
from scaler_gui.views.panes import make_panes
from scaler_gui.views.scrubber import Scrubber
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.monitor.links import row_link
from scaler_protocol.monitor.past import find_past
from scaler_protocol.monitor.tables import Row

TITLE = "Scaler"
_FIRST_SIZE = (1440, 900)
_FRAME_SIZE = QSize(2, 40)
"""Room for the frame that the desktop adds."""

_PANE_KEYS = "1234567890"
_REPLAY_BUTTONS = ("play / pause", "-10 s", "+10 s", "slower", "faster")


class MainWindow(QMainWindow):
    """``settings`` remembers layout, looks and addresses."""

    def __init__(self, monitor: Monitor, settings: QSettings) -> None:
        super().__init__()
        self.monitor = monitor
        self._settings = settings
        self._theme = theme_of(str(settings.value("theme", "system")))
        apply_theme(self._theme)
        self._alerts = FailureAlerts()
        self._notifier = Notifier(self)
        self.docks = Docks(make_panes(monitor))
        self.banner = Banner()
        self._status = QLabel()
        self._status.setTextFormat(Qt.TextFormat.PlainText)
        self._replay_actions = self._make_replay_actions()
        self.scrubber = Scrubber(self._replay_actions)
        self.scrubber.hide()
        self._share_out = QTimer(self, singleShot=True, interval=0)
        self._share_out.timeout.connect(self.docks.share_out)
        self._lay_out()
        self._make_menus()
        self._connect()
        self._restore()
        self._entities: EntityWindow | None = None

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        if not self._settings.contains("layout"):
            self._share_out.start()  # now its size is known

    # ---- what users do -----------------------------------------------------------------------------------------

    def ask_for_address(self) -> None:
        from scaler_gui.views.connect_dialog import ConnectDialog

        dialog = ConnectDialog(self._recent(), self)
        if dialog.exec():
            self.connect_to(dialog.place)

    def connect_to(self, place: RecentAddress) -> None:
        self._settings.setValue("recent", recent.to_text(recent.with_newest(self._recent(), place)))
        self.monitor.connect_to(place)

    def connect_to_address(self, address: str) -> None:
        """Connect with the key files that were used for the address before."""
        known = {place.address: place for place in self._recent()}
        self.connect_to(known.get(address, RecentAddress(address)))

    def replay(self, folder: str) -> None:
        self.monitor.replay(folder)

    def ask_for_recording(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Folder of event logs (scaler_scheduler --event-log)")
        if folder:
            self.replay(folder)

    def ask_for_moment(self) -> None:
        """Ask for a time, of the recording or of what is known of the running cluster."""
        if self.monitor.player is not None:
            self.scrubber.time.setFocus()
            return
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("What happened at a time")
        dialog.setLabelText("Time, such as 03:00 or 2023-11-14T03:00:")
        dialog.textValueSelected.connect(self.go_to_moment)
        dialog.open()

    def go_to_moment(self, text: str) -> None:
        """Show what happened at a time as people write it, in a recording on all views, and otherwise in charts and
        task stream; or say why it is not known."""
        try:
            if self.monitor.player is not None:
                self.monitor.player.seek_text(text)
            else:
                self._show_past(find_past(self.monitor.model, text, "scaler_gui"))
        except ValueError as error:
            box = QMessageBox(QMessageBox.Icon.Information, TITLE, str(error), parent=self)
            box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            box.setTextFormat(Qt.TextFormat.PlainText)
            box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            box.open()

    def _show_past(self, moment: float) -> None:
        for pane in self.docks.panes.values():
            pane.show_moment(moment)
        self.docks.go_to("stream")

    def export(self, kind: str) -> None:
        pane = self.docks.current_pane
        name = f"{pane.name}.{kind}"
        path, _ = QFileDialog.getSaveFileName(self, f"Save {pane.title.lower()}", name, f"{kind.upper()} (*.{kind})")
        if not path:
            return
        try:
            pane.export(path if path.lower().endswith("." + kind) else f"{path}.{kind}")
        except (ValueError, OSError) as error:
            self.statusBar().showMessage(str(error), 10_000)
        else:
            self.statusBar().showMessage(f"Saved {path}.", 5_000)

    def show_help(self) -> None:
        from scaler_gui.views.help_dialog import HelpDialog

        HelpDialog(self.key_groups(), self).exec()

    def key_groups(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Every key, by where it works."""
        own = [
            (action.shortcut().toString(), action.text().replace("&", "").rstrip("."))
            for action in self.findChildren(QAction)
            if not action.shortcut().isEmpty() and action not in self._replay_actions
        ]
        replay = [(each.shortcut().toString(), each.text().replace("&", "")) for each in self._replay_actions]
        panes = [(pane.title, list(pane.keys)) for pane in self.docks.panes.values() if pane.name in _EXPLAINED]
        return [
            ("Everywhere", [*own, ("Tab, Shift+Tab", "to the next or previous part")]),
            ("Recordings", replay),
            *panes,
        ]

    def set_theme(self, choice: str) -> None:
        """``system``, ``light`` or ``dark``."""
        self._settings.setValue("theme", choice)
        self._theme_actions[choice if choice in CHOICES else "system"].setChecked(True)
        self._theme = theme_of(choice)
        apply_theme(self._theme)
        for pane in self.docks.panes.values():
            pane.set_theme(self._theme)

    @property
    def theme(self) -> Theme:
        return self._theme

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        self._settings.setValue("geometry", self.saveGeometry())
        self._settings.setValue("layout", self.docks.layout_state())
        self._settings.sync()
        self.monitor.close()
        super().closeEvent(event)

    # ---- what the monitor says ---------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        self.docks.refresh()
        if self._entities is not None and self._entities.isVisible():
            self._entities.refresh()
        self.scrubber.show_moment()
        self._tell_of_failures()

    def _on_replaced(self) -> None:
        self.scrubber.player, self.scrubber.marks = self.monitor.player, self.monitor.marks
        self.scrubber.show_moment()
        for action in self._replay_actions:
            action.setEnabled(self.monitor.player is not None)
        self.docks.replaced()

    def _on_status(self, status: ConnectionStatus) -> None:
        self._status.setText(status.text)
        self.banner.say(status.trouble)
        where = self.monitor.recording or (self.monitor.place.address if self.monitor.place else "")
        self.setWindowTitle(f"{where} - {TITLE}" if where else TITLE)

    def _tell_of_failures(self) -> None:
        snapshot = self.monitor.model.snapshot
        if snapshot is None or self.monitor.player is not None or not self._notify.isChecked():
            return
        new = self._alerts.due(snapshot.scheduler.epoch, snapshot.tasks.failed, self.monitor.now)
        if new:
            rows, _ = self.monitor.model.rows("failures", sort_key="last", descending=True, limit=1)
            cause = ": ".join(part for part in rows[0][2:4] if part) if rows else ""
            self._notifier.tell(TITLE, sentence(new, cause))

    # ---- making ------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        body = QWidget()
        box = QVBoxLayout(body)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.banner)
        box.addWidget(self.docks, 1)
        box.addWidget(self.scrubber)
        self.setCentralWidget(body)
        self.statusBar().addWidget(self._status, 1)
        self.setWindowTitle(TITLE)
        self.resize(QSize(*_FIRST_SIZE).boundedTo(QGuiApplication.primaryScreen().availableSize() - _FRAME_SIZE))

    def _make_menus(self) -> None:
        bar = self.menuBar()
        file = bar.addMenu("&File")
        self._add(file, "&Connect...", "Ctrl+O", self.ask_for_address)
        self._recent_menu = file.addMenu("Connect &again")
        self._recent_menu.aboutToShow.connect(self._fill_recent)
        self._add(file, "Open &recording...", "Ctrl+R", self.ask_for_recording)
        file.addSeparator()
        self._add(file, "Save view as &picture...", "Ctrl+P", lambda: self.export("png"))
        self._add(file, "Save view as &table...", "Ctrl+S", lambda: self.export("csv"))
        file.addSeparator()
        self._add(file, "&Quit", "Ctrl+Q", self.close)
        self._make_view_menu(bar.addMenu("&View"))
        replay = bar.addMenu("&Replay")
        replay.addActions(self._replay_actions)
        help_menu = bar.addMenu("&Help")
        self._add(help_menu, "&Keys", "F1", self.show_help)

    def _make_view_menu(self, menu: QMenu) -> None:
        for number, (name, dock) in enumerate(self.docks.docks.items()):
            key = f"Ctrl+{_PANE_KEYS[number]}" if number < len(_PANE_KEYS) else ""
            self._add(menu, dock.windowTitle(), key, partial(self.docks.go_to, name))
        menu.addSeparator()
        hide = menu.addMenu("&Shown views")
        hide.addActions([dock.toggleViewAction() for dock in self.docks.docks.values()])
        self._add(menu, "&Next view", "F6", lambda: self.docks.go_on(1))
        self._add(menu, "&Previous view", "Shift+F6", lambda: self.docks.go_on(-1))
        self._add(menu, "&Filter rows", "Ctrl+F", self._focus_filter)
        self._add(menu, "&Go to time...", "Ctrl+T", self.ask_for_moment)
        self._add(menu, "&Reset layout", "", self.docks.arrange)
        menu.addSeparator()
        self._make_theme_menu(menu.addMenu("&Colours"))
        self._add(menu, "Light or &dark", "Ctrl+D", lambda: self.set_theme("light" if self._theme.is_dark else "dark"))
        self._add(menu, "F&ull screen", "F11", self._toggle_full_screen)
        self._notify = self._add(menu, "Notify of &failures", "Ctrl+N", self._on_notify)
        self._notify.setCheckable(True)

    def _make_theme_menu(self, menu: QMenu) -> None:
        group = QActionGroup(self)
        self._theme_actions = {}
        for choice in CHOICES:
            text = {"system": "As the &desktop", "light": "&Light", "dark": "D&ark"}[choice]
            action = self._add(menu, text, "", partial(self.set_theme, choice))
            action.setCheckable(True)
            group.addAction(action)
            self._theme_actions[choice] = action

    def _make_replay_actions(self) -> list[QAction]:
        play = self._action("&Play or pause", "Ctrl+Space", lambda: self._with_player("toggle"))
        back = self._action("&Back by 10 s", "Ctrl+Left", lambda: self._jump(-10))
        on = self._action("F&orward by 10 s", "Ctrl+Right", lambda: self._jump(10))
        slower = self._action("&Slower", "Ctrl+,", lambda: self._with_player("change_speed", -1))
        faster = self._action("&Faster", "Ctrl+.", lambda: self._with_player("change_speed", 1))
        actions = [play, back, on, slower, faster]
        for action, text in zip(actions, _REPLAY_BUTTONS, strict=True):
            action.setIconText(text)
            action.setEnabled(False)
        return actions

    def _with_player(self, method: str, *arguments: object) -> None:
        if self.monitor.player is not None:
            getattr(self.monitor.player, method)(*arguments)
            self.scrubber.show_moment()

    def _jump(self, seconds: float) -> None:
        if self.monitor.player is not None:
            self._with_player("seek", self.monitor.player.position + seconds)

    def _add(self, menu: QMenu, text: str, key: str, do: Callable[[], object]) -> QAction:
        action = self._action(text, key, do)
        menu.addAction(action)
        return action

    def _action(self, text: str, key: str, do: Callable[[], object]) -> QAction:
        action = QAction(text, self)
        if key:
            action.setShortcut(QKeySequence(key))
        action.triggered.connect(lambda *_: do())
        return action

    def _connect(self) -> None:
        self.monitor.ticked.connect(self._on_tick)
        self.monitor.events_came.connect(lambda: self.docks.refresh(only_events=True))
        self.monitor.replaced.connect(self._on_replaced)
        self.monitor.status_changed.connect(self._on_status)
        self._on_status(self.monitor.status)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_desktop_colours)
        stream, tasks = self.docks.panes["stream"], self.docks.panes["tasks"]
        stream.canvas.task_chosen.connect(self._show_task)  # type: ignore[attr-defined]
        self._tasks = tasks
        for pane in self.docks.panes.values():
            if isinstance(pane, TablePane):
                pane.view.opened.connect(partial(self.open_row, pane.name))

    def _on_desktop_colours(self) -> None:
        if self._theme_actions["system"].isChecked():
            self.set_theme("system")

    def _show_task(self, task: int) -> None:
        self.docks.go_to("tasks")
        self._tasks.filter.setText(str(task))  # type: ignore[attr-defined]

    def open_row(self, table: str, row: Row | None) -> None:
        """Show the page of what a row stands for, if it has one."""
        link = row_link(table, row) if row is not None else None
        if link is None:
            return
        if self._entities is None:
            self._entities = EntityWindow(self.monitor, self)
        self._entities.theme = self._theme
        self._entities.visit(link)

    def _focus_filter(self) -> None:
        focus = getattr(self.docks.current_pane, "focus_filter", None)
        if focus is not None:
            focus()

    def _toggle_full_screen(self) -> None:
        self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen)

    def _on_notify(self) -> None:
        self._settings.setValue("notify", self._notify.isChecked())
        self._alerts = FailureAlerts()
        self._tell_of_failures()  # nothing yet: it counts from here on

    # ---- what is remembered ------------------------------------------------------------------------------------

    def _restore(self) -> None:
        geometry, layout = self._settings.value("geometry"), self._settings.value("layout")
        if isinstance(geometry, QByteArray):
            self.restoreGeometry(geometry)
        if isinstance(layout, QByteArray) and not self.docks.restore_layout(layout):
            self.docks.arrange()
        self._notify.setChecked(str(self._settings.value("notify", "false")).lower() == "true")
        self.set_theme(str(self._settings.value("theme", "system")))

    def _recent(self) -> list[RecentAddress]:
        return recent.from_text(str(self._settings.value("recent", "")))

    def _fill_recent(self) -> None:
        self._recent_menu.clear()
        for place in self._recent():
            action = self._recent_menu.addAction(place.address.replace("&", "&&"))
            action.triggered.connect(lambda *_, place=place: self.connect_to(place))
        if self._recent_menu.isEmpty():
            self._recent_menu.addAction("None yet").setEnabled(False)


_EXPLAINED = ("overview", "stream", "workers", "graphs")
"""Panes whose keys the help lists; other tables have those of the workers."""
