"""The lines of ``scaler progress``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from scaler import Client
from scaler.command.progress import document_of, lines_of, looks
from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.messages import ClientStatus, FunctionStatus, SchedulerStatus, Snapshot, TaskCounts
from scaler_protocol.monitor.progress import ALL, CLIENT, FUNCTION, Progress


def test_all_tasks_come_first_then_those_with_most_to_do() -> None:
    rows = [
        Progress(CLIENT, b"a", "abababab notebook (pid 7)", 10, on_hosts=2, unfinished=10, seconds_left=20.0),
        Progress(FUNCTION, "simulate", "simulate", 30, 1, on_hosts=2, unfinished=69),
        Progress(ALL, "", "all tasks", 38, 1, 2, on_hosts=4, unfinished=79, seconds_left=100.0),
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
    shown, rows = next(looks(client))
    assert shown.functions[0].name == "pricing.run"
    assert [row.name for row in rows if row.kind == FUNCTION] == ["pricing.run", "risk.run"]


def test_clients_are_named_by_user_and_program_and_json_says_more_of_them() -> None:
    clients = (
        ClientStatus(b"\xab" * 16, "notebook", 777, True, 3, 2, user="alice", key_name="team", program="train.py"),
        ClientStatus(b"\xcd" * 16, "batch", 778, True, 1),
    )
    functions = (FunctionStatus(b"f" * 16, "simulate", 6),)
    snapshot = Snapshot(
        SchedulerStatus("tcp://127.0.0.1:1", 1), TaskCounts(4, 2), clients=clients, functions=functions, time=1.0
    )
    client = cast(Client, SimpleNamespace(cluster_info=lambda: SimpleNamespace(snapshot=snapshot)))
    document = document_of(next(looks(client)))
    names = ["all tasks", "abababab alice (key team), train.py at notebook", "cdcdcdcd batch (pid 778)"]
    assert [row["name"] for row in document[:3]] == names
    assert [(row["kind"], row["on_hosts"], row["unfinished"]) for row in document] == [
        ("all", 2, 6), ("client", 2, 5), ("client", 0, 1), ("function", 6, 6),
    ]  # fmt: skip
    first = {key: document[1][key] for key in ("session", "host", "pid", "user", "key_name", "program", "group")}
    assert first == {
        "session": "ab" * 16, "host": "notebook", "pid": 777, "user": "alice", "key_name": "team",
        "program": "train.py", "group": "",
    }  # fmt: skip


@pytest.mark.parametrize("width", [80, 120, 200])
def test_counts_are_shown_on_any_terminal(width: int) -> None:
    name = "abababab alice, a_long_name_of_a_program.py at notebook (pid 777)"
    (line,) = lines_of([Progress(CLIENT, b"a", name, 10, unfinished=10)], 0.0, width)
    assert line.startswith("client abababab alice") and line.endswith(" 50%  10 of 20")
