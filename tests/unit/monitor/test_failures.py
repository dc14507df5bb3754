from __future__ import annotations

import json
import pickle
import uuid
from pathlib import Path

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.monitor.causes import masked, place_of
from scaler_protocol.monitor.failures import (
    EXAMPLE_LIMIT,
    GROUP_LIMIT,
    Failure,
    Failures,
    details_of_task,
    details_text,
    read_payload,
)
from scaler_protocol.monitor.model import FAILURE_LINES, Model
from scaler_protocol.monitor.output_log import STDERR, STDOUT
from scaler_protocol.monitor.payloads import FAILURE_LIMIT_BYTES, kept_payload

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


def test_values_in_a_message_make_no_new_group() -> None:
    failures = Failures()
    for number in range(20):
        failures.add(failure(number, message=f"no price of {uuid.UUID(int=number)} in row {number} of 'file {number}'"))
    (group,) = failures.groups
    assert (group.count, group.message) == (20, "no price of <id> in row # of '…'")


def test_a_message_is_shown_as_it_is_while_all_are_equal() -> None:
    failures = Failures()
    failures.add(failure(message="row 11"))
    failures.add(failure(message="row 11"))
    assert failures.groups[0].message == "row 11"
    failures.add(failure(message="row 12"))
    assert failures.groups[0].message == "row #"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("row 1,234.5e-6 of -3", "row # of #"),
        ("'a' is not \"b\" or b'c'", "'…' is not '…' or '…'"),
        ("can't read the user's file", "can't read the user's file"),
        ("unclosed 'text 12", "unclosed '…'"),
        ("object at 0x7f00deadbeef, digest 12ab34cd56", "object at <id>, digest <id>"),
        ("float64 is not facade", "float# is not facade"),
        ("", ""),
    ],
)
def test_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_one_message_from_two_lines_is_two_groups() -> None:
    failures = Failures()
    failures.add(failure())
    failures.add(failure()._replace(details=TRACEBACK.replace("line 7", "line 8")))
    assert [group.cause.place for group in failures.groups] == ["job.py:7 in run", "job.py:8 in run"]
    assert "raised at job.py:8 in run" in details_text(failures.groups[1])


def test_tables_show_a_place_without_its_folder_and_details_all_of_it() -> None:
    failures = Failures()
    failures.add(failure()._replace(details=TRACEBACK.replace("job.py", "/home/me/study of prices/job.py")))
    (group,) = failures.groups
    assert group.cause.short_place == "job.py:7 in run"
    assert "raised at /home/me/study of prices/job.py:7 in run" in details_text(group)


def test_the_innermost_frame_is_the_place() -> None:
    inner = '  File "lib.py", line 3, in parse\n    File "no", line 1, in message\n'
    assert place_of(TRACEBACK.replace("ValueError", inner + "ValueError")) == "no:1 in message"
    assert place_of("no traceback") == ""


def word(number: int) -> str:
    """Letters only, so that masking keeps words apart."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def died(number: int, message: str) -> Failure:
    return failure(number, "ProcessorDiedError", message)._replace(status=Status.PROCESSOR_DIED, details="stderr: x")


def test_groups_are_bounded_and_every_failure_is_counted() -> None:
    failures = Failures()
    for number in range(GROUP_LIMIT + 50):
        failures.add(failure(number, message=word(number)))
    assert len(failures.groups) == GROUP_LIMIT
    assert sum(group.count for group in failures.groups) + failures.dropped == failures.total == GROUP_LIMIT + 50
    assert failures.dropped_text == "50 of rare causes are no longer listed"


def test_a_flood_of_messages_removes_neither_frequent_groups_nor_other_kinds() -> None:
    failures = Failures()
    for number in range(3):
        failures.add(failure(number, message="frequent"))
    deaths = ["SIGSEGV", "SIGKILL", "exit code 3", "exit code 4"]
    for text in deaths:
        failures.add(died(1, text))
    for number in range(3 * GROUP_LIMIT):
        failures.add(failure(number, message=word(number)))
    for text in ("SIGABRT", "exit code 5"):
        failures.add(died(1, text))
    messages = [group.message for group in failures.groups]
    assert {*deaths, "frequent", "SIGABRT", "exit code 5"} <= set(messages)
    assert len(messages) == GROUP_LIMIT
    last = failures.groups[-1]
    assert failures.group(last.number) is last
    assert failures.group(10) is None


def test_a_failure_with_a_long_message_keeps_its_ends() -> None:
    message = "first words " + "x" * 500_000 + " last words"
    kept = kept_payload(Status.EXCEPTION, pickle.dumps((b"e" * 500_000, "ValueError", message, TRACEBACK + message)))
    assert len(kept) <= FAILURE_LIMIT_BYTES
    kind, shown, details = read_payload(Status.EXCEPTION, kept)
    assert kind == "ValueError"
    assert shown.startswith("first words") and shown.endswith("last words") and "bytes are left out" in shown
    assert place_of(details) == "job.py:7 in run"


def test_an_exception_with_a_large_payload_keeps_its_whole_traceback() -> None:
    kept = kept_payload(Status.EXCEPTION, pickle.dumps((b"e" * 500_000, "ValueError", "no such price", TRACEBACK)))
    assert read_payload(Status.EXCEPTION, kept) == ("ValueError", "no such price", TRACEBACK)


def test_long_death_certificates_keep_their_cause() -> None:
    death = {"signal": "SIGSEGV", "peak_memory": 5, "stderr": [f"{number} {'y' * 2000}" for number in range(20)]}
    kept = kept_payload(Status.PROCESSOR_DIED, json.dumps([death] * 5).encode())
    assert len(kept) <= FAILURE_LIMIT_BYTES
    _, shown, details = read_payload(Status.PROCESSOR_DIED, kept)
    assert shown == "SIGSEGV"
    assert details.count("peak memory") == 4 and "bytes are left out" in details


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("start", [b"", b"\x80\x05\xff\xff", b"{", b"[1, 2]", b"[" * 9, b"\xff", b"0", b"\x80\x04N("])
def test_long_nonsense_is_kept_within_the_limit(status: Status, start: bytes) -> None:
    for filler in (b"\xff", b"0", b"[", b" "):
        kept = kept_payload(status, start + filler * 100_000)
        assert len(kept) <= FAILURE_LIMIT_BYTES
        assert len(read_payload(status, kept)) == 3


def test_details_name_everything() -> None:
    failures = Failures()
    failures.add(failure(5))
    text = details_text(failures.groups[0])
    heading = "exception, seen once"
    for part in ("ValueError: no such price", heading, "node", "task 5 of abababab", 'File "job.py"'):
        assert part in text


def test_the_details_of_failures_end_with_what_their_tasks_have_printed() -> None:
    model = Model(0.0)
    model.activity.failures.add(failure(7))
    (group,) = model.activity.failures.groups
    assert "stdout" not in model.failure_details(group.number)
    printed = model.activity.output.add
    for number in range(FAILURE_LINES + 1):
        printed(1000.0, b"\xab" * 16, 7, 1, "run", "w", STDOUT, 0, b"step %d\n" % number)
    printed(1000.0, b"\xab" * 16, 7, 1, "run", "w", STDERR, 0, b"a warning\n")
    printed(1000.0, b"\xab" * 16, 8, 1, "run", "w", STDOUT, 0, b"of another task\n")
    printed(1000.0, b"\xcd" * 16, 7, 1, "run", "w", STDOUT, 0, b"of another client\n")
    lines = model.failure_details(group.number).splitlines()
    assert lines[-FAILURE_LINES - 1 :] == [
        "stdout of these tasks, the newest lines:",
        *(f"    task 7: step {number}" for number in range(1, FAILURE_LINES + 1)),
    ]


def test_details_have_no_characters_that_turn_the_direction_or_have_no_encoding() -> None:
    failures = Failures()
    trace = 'Traceback:\n  File "\u202ea\ud800.py", line 7, in \u2066run\n\tValueError: \x1b[2J\u202e'
    kind, message, details = read_payload(Status.EXCEPTION, exception("Kind\u202e\ud800", "\u202etxt\ud800\n", trace))
    failures.add(failure()._replace(type=kind, message=message, details=details))
    for text in (details_text(failures.groups[0]), details_of_task(failures, "ab", 0)):
        assert all(line.isprintable() for line in text.split("\n"))
        assert "?[2J?" in text
