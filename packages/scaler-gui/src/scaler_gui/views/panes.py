"""Every pane, in the order of its key, and where it first stands."""

from __future__ import annotations

from scaler_gui.monitor import Monitor
from scaler_gui.views.details_pane import DetailsPane, column_text
from scaler_gui.views.failures_pane import FailuresPane
from scaler_gui.views.graphs_pane import GraphsPane
from scaler_gui.views.output_pane import OutputPane
from scaler_gui.views.overview import OverviewPane
from scaler_gui.views.pane import Pane
from scaler_gui.views.stream_pane import StreamPane
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.monitor import tables

CORNERS = {
    "top left": ("overview",),
    "bottom left": ("stream", "graphs"),
    "top right": (
        "workers",
        "running",
        "actors",
        "progress",
        "processors",
        "agents",
        "hosts",
        "clients",
        "functions",
        "objects",
        "largest",
        "traffic",
    ),
    "bottom right": ("failures", "output", "waits", "tasks", "messages", "notices", "settings", "alerts", "logs"),
}
"""The first layout: names of panes, tabbed in each corner."""


def make_panes(monitor: Monitor) -> list[Pane]:
    return [
        OverviewPane(monitor),
        StreamPane(monitor),
        TablePane(monitor, tables.WORKERS),
        TablePane(monitor, tables.FUNCTIONS),
        TablePane(monitor, tables.CLIENTS),
        FailuresPane(monitor),
        DetailsPane(monitor, tables.WAITS, column_text(tables.WAITS, "reason")),
        TablePane(monitor, tables.TASKS, "Task log", shows_events=True),
        GraphsPane(monitor),
        TablePane(monitor, tables.OBJECTS),
        TablePane(monitor, tables.LARGEST),
        TablePane(monitor, tables.RUNNING),
        TablePane(monitor, tables.ACTORS),
        TablePane(monitor, tables.PROGRESS),
        TablePane(monitor, tables.PROCESSORS),
        TablePane(monitor, tables.AGENTS),
        TablePane(monitor, tables.HOSTS),
        TablePane(monitor, tables.MESSAGES),
        TablePane(monitor, tables.NOTICES, shows_events=True),
        TablePane(monitor, tables.SETTINGS),
        DetailsPane(monitor, tables.ALERTS, column_text(tables.ALERTS, "text")),
        TablePane(monitor, tables.TRAFFIC),
        OutputPane(monitor),
        DetailsPane(monitor, tables.LOGS, column_text(tables.LOGS, "text"), shows_events=True),
    ]
