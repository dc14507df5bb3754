"""What tasks print, seen by the client that asked for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import child_environment
from tests.support.waiting import wait_until


def print_lines(prefix: str, count: int) -> int:
    for number in range(count):
        print(f"{prefix} {number}")
        print(f"{prefix} error {number}", file=sys.stderr)
    return count


def expected_lines(prefix: str, count: int) -> list[str]:
    return [f"{prefix} {number}" for number in range(count)]


def test_both_streams_in_order(combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(combo.get_address(), stream_output=True) as client:
        assert client.submit(print_lines, "line", 200).result(timeout=60) == 200
        captured = capsys.readouterr()  # what a task printed comes ahead of its result
    assert captured.out.splitlines() == expected_lines("line", 200)
    assert captured.err.splitlines() == expected_lines("line error", 200)


def test_lines_of_many_tasks(combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(combo.get_address(), stream_output=True) as client:
        client.map(print_lines, [f"task {number}" for number in range(30)], [20] * 30)
        lines = capsys.readouterr().out.splitlines()
    for number in range(30):
        mine = [line for line in lines if line.startswith(f"task {number} ")]
        assert mine == expected_lines(f"task {number}", 20)


def test_only_its_own_client_sees_it(combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(combo.get_address(), stream_output=True) as listening, Client(combo.get_address()) as silent:
        silent.submit(print_lines, "unheard", 5).result(timeout=60)
        listening.submit(print_lines, "heard", 5).result(timeout=60)
        captured = capsys.readouterr()
    assert "unheard" not in captured.out + captured.err
    assert captured.out.splitlines() == expected_lines("heard", 5)


def test_it_comes_while_the_task_runs(
    combo: SchedulerClusterCombo, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(started: str, gate_path: str) -> None:
        print("before the gate")
        functions.wait_at_gate(started, gate_path)

    seen: list[str] = []

    def has_come() -> bool:
        seen.append(capsys.readouterr().out)
        return "before the gate" in "".join(seen)

    with Client(combo.get_address(), stream_output=True) as client:
        future = client.submit(talk, *gate.paths)
        wait_until(has_come)
        assert not future.done()
        gate.open()
        future.result(timeout=60)


def test_a_failing_task(combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        print("last words")
        raise ValueError("failed")

    with Client(combo.get_address(), stream_output=True) as client:
        with pytest.raises(ValueError, match="failed"):
            client.submit(fail).result(timeout=60)
        assert capsys.readouterr().out == "last words\n"


def test_nested_tasks(single_combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    def parent(client: Client) -> None:
        print("parent begins")
        client.submit(print, "child speaks").result()
        with Client(stream_output=True) as own:
            own.submit(print, "child of an own client speaks").result()
        print("parent ends")

    with Client(single_combo.get_address(), stream_output=True) as client:
        client.submit(parent, client).result(timeout=60)
        lines = capsys.readouterr().out.splitlines()
    assert lines == ["parent begins", "child speaks", "child of an own client speaks", "parent ends"]


def test_threads_of_a_task_print_at_once(combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    def parent() -> None:
        from concurrent.futures import ThreadPoolExecutor

        def write(number: int) -> None:
            for index in range(300):
                sys.stdout.write(f"{number} {index} {'x' * 500}\n")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))

    with Client(combo.get_address(), stream_output=True) as client:
        client.submit(parent).result(timeout=60)
        lines = capsys.readouterr().out.splitlines()
    for number in range(4):
        mine = [int(line.split()[1]) for line in lines if line.startswith(f"{number} ")]
        assert mine == list(range(300))


def test_cancelling_a_task_that_prints_without_end(
    single_combo: SchedulerClusterCombo, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(started: str) -> None:
        functions.note(started)
        while True:
            print("x" * 1000)

    with Client(single_combo.get_address(), stream_output=True) as client:
        for number in range(5):
            future = client.submit(talk, str(gate.started))
            wait_until(lambda: len(functions.notes(gate.started)) == number + 1)  # noqa: B023
            assert future.cancel()
        assert client.submit(functions.square, 3).result(timeout=60) == 9


FLOOD = """
import sys
from scaler import Client
def peak_bytes():
    # not ru_maxrss: it also counts what the process was before exec
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
def flood(megabytes):
    line = "x" * 1023
    for number in range(megabytes * 1024):
        print(line)
    return peak_bytes()
client = Client(sys.argv[1], stream_output=True)
print(client.submit(flood, int(sys.argv[2])).result(), file=sys.stderr)
print(peak_bytes(), file=sys.stderr)
client.disconnect()
"""


def test_a_flood_fills_no_memory() -> None:
    import psutil

    with SchedulerClusterCombo(1, logging_paths=("/dev/null",)) as combo:
        with Client(combo.get_address()) as client:
            own = client.submit(functions.parent_process_id).result(timeout=60)
        done = subprocess.run(
            [sys.executable, "-c", FLOOD, combo.get_address(), "100"],
            env=child_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=50,
        )  # fmt: skip
        figures = [int(line) for line in done.stderr.splitlines()]
        assert len(figures) == 2, done.stderr
        assert max(figures) < 150_000_000
        agent = psutil.Process(own)
        assert agent.memory_info().rss < 150_000_000
        assert all(each.memory_info().rss < 200_000_000 for each in psutil.Process().children(recursive=True))


def test_bytes_and_threads_that_outlive_their_task(
    single_combo: SchedulerClusterCombo, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(started: str, gate_path: str) -> None:
        import threading

        kept = sys.stdout
        sys.stdout.buffer.write("bytes ü\n".encode())

        def late() -> None:
            functions.wait_at_gate(started, gate_path)
            kept.write("for nobody\n")
            functions.note(f"{started}-done")

        threading.Thread(target=late, daemon=True).start()

    with Client(single_combo.get_address(), stream_output=True) as client:
        client.submit(talk, *gate.paths).result(timeout=60)
        wait_until(lambda: gate.waiting_pids)
        gate.open()
        wait_until(lambda: functions.notes(f"{gate.started}-done"))
        assert client.submit(functions.square, 3).result(timeout=60) == 9
        assert capsys.readouterr().out == "bytes ü\n"


def test_forks_of_a_task_print_for_it(single_combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    def parent() -> int:
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(3) as pool:
            print("parent")
            return sum(pool.starmap(print_lines, [("child", 200)] * 6))

    with Client(single_combo.get_address(), stream_output=True) as client:
        assert client.submit(parent).result(timeout=60) == 1200
        lines = capsys.readouterr().out.splitlines()
        assert client.submit(print_lines, "after", 3).result(timeout=60) == 3
        after = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(["parent", *expected_lines("child", 200) * 6])
    assert after == expected_lines("after", 3)


def test_c_code_and_subprocesses(single_combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]) -> None:
    def talk(number: int) -> None:
        import ctypes
        import os

        ctypes.CDLL(None).puts(b"C code %d" % number)
        ctypes.CDLL(None).printf(b"no newline")
        print("\nPython", number)
        os.system(f"echo subprocess {number}; echo error {number} >&2")

    with Client(single_combo.get_address(), stream_output=True) as client:
        for number in range(3):
            client.submit(talk, number).result(timeout=60)
            captured = capsys.readouterr()
            words = captured.out.split("\n")
            assert sorted([f"C code {number}", f"Python {number}", f"subprocess {number}"]) == sorted(
                word for word in words if word and not word.startswith("no newline")
            )
            assert captured.out.count("no newline") == 1
            assert captured.err == f"error {number}\n"


def test_lines_of_tasks_that_run_at_once_are_whole(
    combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(number: int) -> None:
        for _ in range(100):
            for part in ("one", "two", "three"):
                print(number, part, end=" ", flush=True)
            print("end")

    with Client(combo.get_address(), stream_output=True) as client:
        client.map(talk, range(4))
        lines = capsys.readouterr().out.splitlines()
    expected = [f"{number} one {number} two {number} three end" for number in range(4) for _ in range(100)]
    assert sorted(lines) == expected


def test_short_tasks_in_a_row_print_for_themselves(
    single_combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several run before their agent reads once."""

    def talk(number: int) -> int:
        print(number, end="")
        return number

    with Client(single_combo.get_address(), stream_output=True) as heard, Client(single_combo.get_address()) as other:
        futures = [(client.submit(talk, 1 if client is heard else 0)) for _ in range(500) for client in (heard, other)]
        assert sum(future.result(timeout=60) for future in futures) == 500
        assert capsys.readouterr().out == "1" * 500


def test_a_failure_has_the_stderr_of_its_task_alone(single_combo: SchedulerClusterCombo) -> None:
    def speak(text: str, fails: bool) -> None:
        print(text, file=sys.stderr)
        print("to stdout")
        if fails:
            raise ValueError(text)

    with Client(single_combo.get_address()) as client:
        for number in range(20):
            client.submit(speak, f"earlier {number}", False).result(timeout=60)
            error = client.submit(speak, f"mine {number}", True).exception(timeout=60)
            assert error is not None
            (note,) = error.__notes__
            assert note.splitlines()[1:] == [f"  mine {number}"]
