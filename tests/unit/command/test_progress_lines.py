"""The lines of ``scaler progress``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from scaler import Client
from scaler.command.progress import lines_of, looks
from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.messages import FunctionStatus, SchedulerStatus, Snapshot
from scaler_protocol.monitor.progress import ALL, CLIENT, FUNCTION, Progress


def test_all_tasks_come_first_then_those_with_most_to_do() -> None:
    rows = [
        Progress(CLIENT, b"a", "abababab notebook (pid 7)", 10, running=2, unfinished=10, seconds_left=20.0),
        Progress(FUNCTION, "simulate", "simulate", 30, 1, running=2, unfinished=69),
        Progress(ALL, "", "all tasks", 38, 1, 2, running=4, unfinished=79, seconds_left=100.0),
    ]
    lines = lines_of(rows, 1_700_000_000.0, 200)
    assert lines[0].startswith("all tasks") and " 34%  41 of 120, 1 failed, 2 cancelled, 2 min left, until " in lines[0]
    assert lines[1].startswith("function simulate") and lines[1].endswith(" 31%  31 of 100, 1 failed")
    assert "[===============               ]  50%  10 of 20, 20 s left" in lines[2]


def test_long_names_and_many_rows_stay_on_the_screen() -> None:
    rows = [Progress(FUNCTION, number, "f\x1b[2J" * 5_000, 1, unfinished=number) for number in range(1, 100)]
    lines = lines_of(rows, 0.0, 60)
    assert len(lines) == 21 and lines[-1] == "... and 79 more"
    assert all(display_width(line) <= 60 and line.isprintable() for line in lines)


def test_functions_of_one_name_are_shown_with_their_modules() -> None:
    functions = tuple(
        FunctionStatus(bytes([number]) * 16, "run", 3, 0, number=number, module=module)
        for number, module in enumerate(("pricing", "risk"))
    )
    snapshot = Snapshot(SchedulerStatus("tcp://127.0.0.1:1", 1), functions=functions, time=1.0)
    client = cast(Client, SimpleNamespace(cluster_info=lambda: SimpleNamespace(snapshot=snapshot)))
    rows = next(looks(client))
    assert [row.name for row in rows if row.kind == FUNCTION] == ["pricing.run", "risk.run"]
