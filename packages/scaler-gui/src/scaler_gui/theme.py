"""Light and dark: the colours of everything, and how Qt is told."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    window: str
    surface: str
    raised: str
    text: str
    muted: str
    border: str
    grid: str
    accent: str
    on_accent: str
    selection: str
    good: str
    warning: str
    bad: str
    series: tuple[str, ...]
    """Lines of charts, in order; as many as a chart has at most."""

    @property
    def is_dark(self) -> bool:
        return self.name == "dark"


LIGHT = Theme(
    name="light", window="#eef1f5", surface="#ffffff", raised="#f6f8fa", text="#1c2733", muted="#566275",
    border="#d5dce4", grid="#e6ebf0", accent="#1860ae", on_accent="#ffffff", selection="#d6e6f8",
    good="#16734b", warning="#8f5500", bad="#bf2828",
    series=("#1860ae", "#a94f00", "#0a7a5f", "#a63d8f", "#56616e"),
)  # fmt: skip
DARK = Theme(
    name="dark", window="#12161c", surface="#1a2028", raised="#222a34", text="#e2e8f0", muted="#8fa0b3",
    border="#2c3642", grid="#27313c", accent="#62a9f3", on_accent="#0b1016", selection="#223a55",
    good="#3fbf8a", warning="#f0b04a", bad="#f2716b",
    series=("#62a9f3", "#f0a94a", "#3fc79a", "#d987c6", "#a9b4c0"),
)  # fmt: skip

CHOICES = ("system", "light", "dark")


def theme_of(choice: str) -> Theme:
    """``light``, ``dark``, or what the desktop prefers now."""
    dark = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
    return {"light": LIGHT, "dark": DARK}.get(choice, DARK if dark else LIGHT)


def apply_theme(theme: Theme) -> None:
    """Before there are widgets it costs nothing: each of them takes it up when it is shown."""
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    sheet = _style_sheet(theme)
    if application.styleSheet() == sheet:
        return
    if not application.styleSheet():
        application.setStyle(QStyleFactory.create("Fusion"))
    application.setPalette(_palette(theme))
    application.setStyleSheet(sheet)


def _palette(theme: Theme) -> QPalette:
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.window, role.WindowText: theme.text, role.Base: theme.surface,
        role.AlternateBase: theme.raised, role.Text: theme.text, role.PlaceholderText: theme.muted,
        role.Button: theme.raised, role.ButtonText: theme.text, role.BrightText: theme.bad,
        role.ToolTipBase: theme.raised, role.ToolTipText: theme.text, role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent, role.Link: theme.accent, role.LinkVisited: theme.accent,
        role.Light: theme.raised, role.Midlight: theme.border, role.Mid: theme.border, role.Dark: theme.border,
        role.Shadow: theme.border, role.Accent: theme.accent,
    }  # fmt: skip
    palette = QPalette()
    for each, colour in colours.items():
        palette.setColor(each, QColor(colour))
    for each in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, each, QColor(theme.muted))
    return palette


def _style_sheet(theme: Theme) -> str:
    return f"""
QMainWindow::separator {{ background: {theme.window}; width: 5px; height: 5px; }}
QMainWindow::separator:hover {{ background: {theme.accent}; }}
QDockWidget {{ font-weight: 600; color: {theme.muted}; }}
QDockWidget::title {{ background: {theme.window}; padding: 4px 8px; text-align: left; }}
QTabBar::tab {{ background: transparent; color: {theme.muted}; padding: 5px 12px; border: none;
    border-bottom: 2px solid transparent; }}
QTabBar::tab:selected {{ color: {theme.text}; border-bottom: 2px solid {theme.accent}; }}
QTabBar::tab:hover {{ color: {theme.text}; }}
QTabBar::scroller {{ width: 40px; }}
QTabBar QToolButton {{ background: {theme.window}; border-radius: 0; padding: 0; }}
QTabBar:focus {{ color: {theme.accent}; }}
QTableView {{ border: none; gridline-color: {theme.grid}; selection-background-color: {theme.selection};
    selection-color: {theme.text}; alternate-background-color: {theme.raised}; background: {theme.surface}; }}
QTableView::item {{ padding: 0 6px; border: none; }}
QTableView::item:selected {{ background: {theme.selection}; color: {theme.text}; }}
QHeaderView {{ background: {theme.surface}; }}
QHeaderView::section {{ background: {theme.surface}; color: {theme.muted}; padding: 4px 6px; border: none;
    border-bottom: 1px solid {theme.border}; font-weight: 600; }}
QLineEdit, QComboBox, QPlainTextEdit {{ background: {theme.surface}; border: 1px solid {theme.border};
    border-radius: 4px; padding: 3px 6px; selection-background-color: {theme.accent};
    selection-color: {theme.on_accent}; }}
QPlainTextEdit {{ border-radius: 0; border: none; border-top: 1px solid {theme.border}; }}
QLineEdit:focus, QComboBox:focus {{ border: 1px solid {theme.accent}; }}
QToolBar {{ background: {theme.window}; border: none; spacing: 4px; padding: 3px 6px; }}
QToolButton {{ border: none; border-radius: 4px; padding: 4px 8px; }}
QToolButton:hover, QToolButton:focus {{ background: {theme.selection}; }}
QToolButton:checked {{ background: {theme.selection}; color: {theme.accent}; }}
QPushButton {{ background: {theme.raised}; border: 1px solid {theme.border}; border-radius: 4px; padding: 5px 14px; }}
QPushButton:hover, QPushButton:focus {{ border: 1px solid {theme.accent}; }}
QPushButton:default {{ background: {theme.accent}; color: {theme.on_accent}; border: 1px solid {theme.accent}; }}
QScrollBar {{ background: transparent; margin: 0; }}
QScrollBar:vertical {{ width: 11px; }}
QScrollBar:horizontal {{ height: 11px; }}
QScrollBar::handle {{ background: {theme.border}; border-radius: 3px; margin: 2px; }}
QScrollBar::handle:vertical {{ min-height: 28px; }}
QScrollBar::handle:horizontal {{ min-width: 28px; }}
QScrollBar::handle:hover {{ background: {theme.muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QAbstractScrollArea::corner {{ background: {theme.surface}; border: none; }}
QSplitter::handle {{ background: {theme.border}; }}
QSplitter::handle:vertical {{ height: 1px; }}
QPushButton:disabled {{ background: {theme.raised}; color: {theme.muted}; border: 1px solid {theme.border}; }}
QComboBox QLineEdit, QComboBox QLineEdit:focus {{ border: none; padding: 0; background: transparent; }}
QStatusBar {{ color: {theme.muted}; }}
QStatusBar::item {{ border: none; }}
QMenuBar {{ background: {theme.window}; }}
QMenuBar::item:selected, QMenu::item:selected {{ background: {theme.selection}; color: {theme.text}; }}
QMenu {{ background: {theme.surface}; border: 1px solid {theme.border}; }}
QToolTip {{ background: {theme.raised}; color: {theme.text}; border: 1px solid {theme.border}; padding: 3px; }}
QLabel[role="muted"] {{ color: {theme.muted}; }}
QLabel[role="banner"] {{ background: {theme.warning}; color: {theme.surface}; padding: 6px 12px; font-weight: 600; }}
QLabel[role="number"] {{ font-size: 17px; font-weight: 600; }}
QLabel[role="number"][tone="bad"] {{ color: {theme.bad}; }}
QLabel[role="number"][tone="warning"], QLabel[role="muted"][tone="warning"] {{ color: {theme.warning}; }}
QFrame[role="card"] {{ background: {theme.surface}; border-radius: 6px; }}
QWidget[role="surface"] {{ background: {theme.surface}; }}
"""
