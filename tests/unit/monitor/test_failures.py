from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.monitor.failures import (
    EXAMPLE_LIMIT,
    GROUP_LIMIT,
    Failure,
    Failures,
    details_text,
    read_payload,
)

TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 7, in run\nValueError: no such price\n'


def exception(kind: str = "ValueError", message: str = "no such price", text: str = TRACEBACK) -> bytes:
    return pickle.dumps((b"anything", kind, message, text))


def failure(number: int = 0, kind: str = "ValueError", message: str = "no such price", **given: str) -> Failure:
    host, function = given.get("host", "node"), given.get("function", "run")
    return Failure(
        1000.0 + number, number, b"\xab" * 16, function, host, "w", 1, Status.EXCEPTION, kind, message, TRACEBACK
    )


def test_an_exception_is_read_without_loading_it() -> None:
    assert read_payload(Status.EXCEPTION, exception()) == ("ValueError", "no such price", TRACEBACK)


class Attack:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_a_pickle_that_wants_to_run_something_runs_nothing(tmp_path: Path) -> None:
    payload = pickle.dumps((Attack(tmp_path / "was-here"), "Kind", "text", "trace"))
    assert len(read_payload(Status.EXCEPTION, payload)) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [0, 1, 5, 20, 40, 60, 100, 120])
def test_what_was_cut_is_read_up_to_the_cut(kept: int) -> None:
    kind, message, _ = read_payload(Status.EXCEPTION, exception()[:kept])
    assert kind in ("", "ValueError")
    assert message in ("", "no such price")


def test_a_long_traceback_that_was_cut_still_names_its_cause() -> None:
    payload = exception(text="x" * 100_000)[:32_768]
    kind, message, _ = read_payload(Status.EXCEPTION, payload)
    assert (kind, message) == ("ValueError", "no such price")


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("payload", [b"", b"\x80\x05\xff\xff", b"{", b"[1, 2]", b"\xff" * 100, b"null"])
def test_nonsense_is_never_an_error(status: Status, payload: bytes) -> None:
    assert len(read_payload(status, payload)) == 3


def test_death_certificates() -> None:
    death = {
        "host": "node-1",
        "pid": 12,
        "signal": "SIGKILL",
        "exit_code": None,
        "out_of_memory": True,
        "stderr": ["a"],
    }
    kind, message, details = read_payload(Status.PROCESSOR_DIED, json.dumps([{"pid": 11}, death]).encode())
    assert (kind, message) == ("ProcessorDiedError", "SIGKILL, out of memory")
    assert "pid: 11" in details and "signal: SIGKILL" in details
    alone = read_payload(Status.PROCESSOR_DIED, json.dumps({"exit_code": 3, "pid": 5}).encode())
    assert alone[1] == "exit code 3"


def test_sentences() -> None:
    assert read_payload(Status.TIMED_OUT, b"too long") == ("TaskTimeoutError", "too long", "")


def test_alike_failures_are_one_group_with_where_and_when() -> None:
    failures = Failures()
    for number in range(10):
        failures.add(failure(number, host=f"node-{number % 2}", function=f"f{number % 3}"))
    failures.add(failure(99, message="another\nsecond line"))
    first, second = failures.groups
    assert (first.count, first.first_time, first.last_time) == (10, 1000.0, 1009.0)
    assert (first.hosts, first.functions) == (["node-0", "node-1"], ["f0", "f1", "f2"])
    assert [example.task for example in first.examples] == [0, 8, 9]
    assert len(first.examples) == EXAMPLE_LIMIT
    assert second.cause.message == "another"
    assert failures.total == 11


def test_groups_are_bounded_and_every_failure_is_counted() -> None:
    failures = Failures()
    for number in range(GROUP_LIMIT + 50):
        failures.add(failure(number, message=f"number {number}"))
    assert len(failures.groups) == GROUP_LIMIT + 1
    assert sum(group.count for group in failures.groups) == failures.total == GROUP_LIMIT + 50


def test_details_name_everything() -> None:
    failures = Failures()
    failures.add(failure(5))
    text = details_text(failures.groups[0])
    heading = "exception, seen once"
    for part in ("ValueError: no such price", heading, "node", "task 5 of abababab", 'File "job.py"'):
        assert part in text
