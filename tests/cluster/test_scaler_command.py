"""The command ``scaler``: status, doctor, and actions on workers and tasks."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.key_files import generate
from scaler_protocol.transport.curve_authentication import new_key_pair
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Command, child_environment, command_line, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

GRACE = ("-n", 1, "--grace-seconds", 100)


def scaler(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line("scaler", *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=child_environment(**environment),
        check=False,
    )


@pytest.fixture
def address() -> Iterator[str]:
    found = free_address()
    with start_scheduler(found), start_cluster(found, "-n", 2):
        yield found


def test_status_shows_the_cluster_on_one_screen(address: str) -> None:
    with Client(address) as client:
        future = client.submit(time.sleep, 60)
        wait_until(lambda: client.cluster_info().unfinished.running)
        shown = scaler("status", address)
        future.cancel()
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith(f"Scheduler  {address}, version ")
    assert lines[1].startswith("Workers    2 on 1 host, ")
    assert f"(pid {os.getpid()})" in shown.stdout
    assert len(lines) < 24


def test_status_as_json(address: str) -> None:
    shown = json.loads(scaler("status", address, "--json").stdout)
    assert len(shown["workers"]) == 2


def test_doctor_finds_nothing_wrong(address: str) -> None:
    shown = scaler("doctor", address)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "A scheduler answers" in shown.stdout and "[fail]" not in shown.stdout
    rows = json.loads(scaler("doctor", address, "--json").stdout)
    assert {row["severity"] for row in rows} <= {"ok", "warn"} and rows[0].keys() == {"severity", "text", "remedy"}


def test_doctor_finds_what_differs_on_a_host(tmp_path: Path) -> None:
    information = tmp_path / "cloudpickle-99.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudpickle\nVersion: 99.1.0\n")
    (tmp_path / "sitecustomize.py").write_text("import time\ntrue = time.time\ntime.time = lambda: true() + 30\n")
    path = os.pathsep.join((str(tmp_path), child_environment()["PYTHONPATH"]))
    address, spill_directory = free_address(), tmp_path / "a-file"
    spill_directory.touch()
    flags = ("-n", "1", "--spill-directory", spill_directory / "below")
    with start_scheduler(address), start_cluster(address, *flags, PYTHONPATH=path) as cluster:
        shown = scaler("doctor", address)
        cluster.terminate()
    assert shown.returncode == 0, shown.stdout
    assert "it has cloudpickle 99.1.0, but this host has" in shown.stdout
    assert re.search(r"its clock is (29|30)\.\d s ahead of this host's", shown.stdout)
    assert f"cannot be written to {spill_directory}" in shown.stdout and "/var/tmp" not in shown.stdout


def test_doctor_compares_the_clock_of_the_scheduler_and_looks_at_the_disk_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time\ntrue = time.time\ntime.time = lambda: true() - 30\n")
    path = os.pathsep.join((str(tmp_path), child_environment()["PYTHONPATH"]))
    blocked = tmp_path / "file"
    blocked.touch()
    address = free_address()
    with start_scheduler(address, PYTHONPATH=path):
        shown = scaler("doctor", address, SCALER_SPILL_DIRECTORY=str(blocked / "below"))
    assert shown.returncode == 0, shown.stdout
    assert re.search(r"\(scheduler\): its clock is (29|30)\.\d s behind this host's", shown.stdout)
    assert f"(this host): objects that do not fit into memory cannot be written to {blocked}" in shown.stdout


def test_doctor_says_what_to_do_when_nothing_listens() -> None:
    address = free_address()
    shown = scaler("doctor", address)
    assert shown.returncode == 1
    assert shown.stdout.splitlines() == [
        f"[fail] Nothing listens at {address}.",
        f"       Start a scheduler there: scaler_scheduler {address}; or give the address of the running one.",
    ]


def test_doctor_says_which_keys_are_wrong_and_nothing_else(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, others = free_address(), tmp_path / "others"
    generate(others, new_key_pair)
    with start_scheduler(address):
        monkeypatch.setenv("SCALER_KEYS", str(others))
        shown = scaler("doctor", address)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert "[fail] The scheduler did not accept this client.\n       Cannot connect to" in shown.stdout
    assert "set SCALER_KEYS to the keys of its scheduler" in shown.stdout


def test_doctor_says_which_key_is_missing(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = free_address()
    with start_scheduler(address):
        monkeypatch.setenv("SCALER_KEYS", str(tmp_path))
        shown = scaler("doctor", address)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert f"Cannot use {tmp_path}/submit.key: it is missing. Copy it from the host" in shown.stdout


def test_doctor_of_a_server_that_is_no_scheduler() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        shown = scaler("doctor", address, "--timeout=1")
    assert (shown.returncode, shown.stderr) == (1, "")
    assert f"[fail] What listens at {address} does not answer as a scheduler." in shown.stdout


def test_doctor_without_workers_and_with_a_wrong_name() -> None:
    address = free_address()
    with start_scheduler(address):
        shown = scaler("doctor", address)
    assert shown.returncode == 0 and "[warn] No workers are connected." in shown.stdout
    shown = scaler("doctor", "tcp://no-such-host.invalid:1")
    assert shown.returncode == 1 and "No host is called 'no-such-host.invalid'." in shown.stdout


def test_workers_are_paused_and_resumed(address: str) -> None:
    with Client(address) as client:
        agent = client.cluster_info().agents[0]
        assert scaler("pause", address, agent.host, "--yes").stdout == f"Paused {agent.name}.\n"
        assert f"Problems   {agent.name} is paused." in scaler("status", address).stdout
        assert scaler("resume", address, "-y", agent.host).stdout == f"Resumed {agent.name}.\n"
        assert client.submit(abs, -1).result() == 1


@pytest.mark.parametrize("is_told", [True, False])
def test_a_host_that_leaves_is_draining_until_its_tasks_have_ended(gate: Gate, is_told: bool) -> None:
    """An operator drains it, or it is told to end."""
    address = free_address()
    with start_scheduler(address), start_cluster(address, *GRACE) as leaving, Client(address) as client:
        running = client.submit(functions.wait_at_gate, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        name = client.cluster_info().agents[0].name
        if is_told:
            assert scaler("drain", address, name, "--yes").returncode == 0
        else:
            leaving.signal(signal.SIGTERM)
        wait_until(lambda: client.cluster_info().agents[0].state_name == "draining")
        sentence = f"{name} is draining: it leaves when its running tasks have ended."
        assert f"Problems   {sentence}\n" in scaler("status", address).stdout
        refused = scaler("resume", address, name, "--yes")
        assert refused.returncode == 1 and f"Cannot resume '{name}': it is draining" in refused.stderr
        gate.open()
        running.result(60)
        assert leaving.wait() == 0


def test_tasks_of_a_function_are_cancelled(address: str) -> None:
    with Client(address) as client:
        futures = [client.submit(time.sleep, 60) for _ in range(5)]
        wait_until(lambda: client.cluster_info().unfinished.running)
        shown = scaler("cancel", address, "--function", "sleep", "--yes")
        assert (shown.returncode, shown.stdout) == (0, "Cancelled 5 tasks of function sleep.\n")
        wait_until(lambda: all(future.cancelled() for future in futures))


def test_values_of_groups_and_tasks_are_set(address: str) -> None:
    with Client(address) as client:
        future = client.submit(time.sleep, 60)
        wait_until(lambda: client.cluster_info().unfinished.running)
        shown = scaler("set", address, "--group", "default", "--weight", 2, "--limit", 1, "--yes")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.splitlines() == [
            "Set the weight of group default to 2.",
            "Set the limit of group default to 1 worker.",
        ]
        wait_until(lambda: [(each.weight, each.worker_limit) for each in client.cluster_info().groups] == [(2.0, 1)])
        name = client.cluster_info().clients[0].session.hex()[:8]
        assert scaler("set", address, "--client", name, "--weight", 4, "--yes").returncode == 0
        status = scaler("status", address).stdout
        assert ", group default (weight 2, at most 1 worker), weight 4 (asked 1): " in status
        unlimited = scaler("set", address, "--group", "default", "--limit", 0, "--yes")
        assert unlimited.stdout == "Set the limit of group default to any number of workers.\n"
        raised = scaler("set", address, "--function", "sleep", "--priority", 3, "--yes")
        assert raised.stdout == "Set the priority of function sleep to 3, for 0 tasks.\n"
        future.cancel()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("pause", "vm", "-y"),
            "scaler pause: Cannot do this: {} has no key that permits it. Copy admin.key there from",
        ),
        (("cancel", "--client", "a", "-y"), "of the client whose tasks these are."),
        (("status",), "scaler status: Cannot use {}/submit.key: it is missing."),
    ],
)
def test_who_may_only_watch_hears_which_key_suffices(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    folder = tmp_path / "keys"
    generate(folder, new_key_pair)
    for each in folder.glob("*.key"):
        if each.name != "observe.key":
            each.unlink()
    shown = scaler(arguments[0], "tcp://127.0.0.1:1", *arguments[1:], SCALER_KEYS=str(folder))
    assert (shown.returncode, shown.stdout, len(shown.stderr.splitlines())) == (1, "", 1)
    assert text.format(folder) in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "scaler: A subcommand is missing. Give one of init, up, down, status, progress, doctor,"),
        (("nonsense",), 2, "scaler: 'nonsense' is not a subcommand."),
        (("pause", "tcp://127.0.0.1:1", "host"), 2, "scaler pause: Cannot ask for confirmation: this is not a"),
        (("cancel", "tcp://127.0.0.1:1"), 2, "scaler cancel: Cannot tell which tasks to cancel."),
        (("set", "tcp://127.0.0.1:1", "-y"), 2, "scaler set: Cannot tell what to change."),
        (("status", "nonsense"), 2, "scaler status: Cannot use ADDRESS 'nonsense': it is not an address. Write tcp:"),
        (
            ("status", "tcp://127.0.0.1:1", "-t", "0.3"),
            1,
            "scaler status: The scheduler was out of reach for 0.3 seconds. Check with: scaler doctor tcp://127.0.0.1:1",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments: tuple[str, ...], code: int, text: str) -> None:
    shown = scaler(*arguments)
    assert (shown.returncode, shown.stdout, len(shown.stderr.splitlines())) == (code, "", 1)
    assert shown.stderr.startswith(text)


def test_help_and_version() -> None:
    assert scaler("--help").stdout.startswith("usage: scaler SUBCOMMAND")
    assert scaler("--version").stdout.startswith("scaler ")
    assert scaler("status", "--help").stdout.startswith("usage: scaler status ")


def test_progress_names_clients_and_functions_with_unfinished_tasks(address: str) -> None:
    with Client(address) as client:
        futures = [client.submit(time.sleep, 60) for _ in range(12)]
        wait_until(lambda: client.cluster_info().unfinished.running)
        shown = scaler("progress", address)
        rows = json.loads(scaler("progress", address, "--json").stdout)
        for future in futures:
            future.cancel()
        wait_until(lambda: sum(client.cluster_info().unfinished) == 0)
        done = scaler("progress", address, "--once")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("all tasks ") and " 0 of 12" in lines[0]
    assert any("sleep" in line for line in lines) and any("client" in line for line in lines)
    assert rows[0]["kind"] == "all" and (rows[0]["share"], rows[0]["unfinished"]) == (0.0, 12)
    assert done.stdout.splitlines() == [f"all tasks [{'=' * 30}] 100%  12 of 12, 12 cancelled"]


def test_output_is_followed(address: str, gate: Gate) -> None:
    def talk(started: str, path: str) -> None:
        print("before the gate")
        functions.wait_at_gate(started, path)
        print("behind the gate")

    with Client(address) as client:
        future = client.submit(talk, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        [worker] = [each.name for each in client.cluster_info().workers if each.pid in gate.waiting_pids]
        with Command(command_line("scaler", "output", address, worker, "--follow")) as following:
            following.wait_for_output(r"^\[.*talk \d+\] before the gate$")
            gate.open()
            future.result(timeout=60)
            following.wait_for_output(r"^\[.*talk \d+\] behind the gate$")
            following.signal(signal.SIGINT)
            assert following.wait() == 130
            shown = following.output
    assert [line.partition("] ")[2] for line in shown.splitlines()] == ["before the gate", "behind the gate"]


def test_following_ends_when_the_reader_leaves_or_the_worker_does_not_exist(address: str) -> None:
    with Client(address) as client:
        assert client.submit(print, "once").result(timeout=60) is None
        workers = client.cluster_info().workers
    [worker] = [each.name for each in workers if scaler("output", address, each.name).stdout]
    reading, writing = os.pipe()
    os.close(reading)
    command = command_line("scaler", "output", address, worker, "-f")
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=child_environment(), timeout=30)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    shown = scaler("output", address, "nobody", "--follow")
    assert shown.returncode == 1 and "nobody" in shown.stderr


def test_a_reader_that_has_seen_enough_ends_a_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = command_line("scaler", "completion", "bash")
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
