"""The kind ``ssh`` without connections: which hosts get which workers, what is refused, and how failures are told."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from scaler_protocol.command import BadInput, read_settings
from scaler_protocol.key_files import generate
from scaler_protocol.private_folder import MemoryFolder
from scaler_protocol.transport.curve_authentication import new_key_pair
from scaler_worker import __version__
from scaler_worker.manager.core.jobs import JobState
from scaler_worker.manager.core.manager import LONGEST_PAUSE_SECONDS, STABLE_SECONDS
from scaler_worker.manager.core.retries import LONGEST_LASTING_PAUSE_SECONDS, RetryPause
from scaler_worker.manager.core.ssh_facts import TEXT_LIMIT, facts_in
from scaler_worker.manager.core.ssh_failures import (
    explain_end,
    explain_failure,
    explain_python,
    explain_version,
    is_lasting_failure,
)
from scaler_worker.manager.core.ssh_hosts import RemoteHost, assign, capacities, parse_host
from scaler_worker.manager.shell.ssh import START_SECONDS, HostRecord, RemoteJob, SSHBackend
from scaler_worker.manager.shell.ssh_connection import SSHConnection, remote_command, ssh_command
from scaler_worker.manager.shell.ssh_keys import keys_for_workers
from scaler_worker.manager.shell.ssh_route import address_for_hosts
from scaler_worker.manager.ssh_config import SSHSettings
from tests.support.commands import alive
from tests.support.ssh_server import sshd, stand_in_for_program
from tests.support.waiting import wait_until

NO_PYTHON = "it has no program python3. Give --remote-python the path of a Python there that has scaler-worker."
REMOTE = "tcp://10.0.0.1:2345"


def read(*words: str) -> SSHSettings:
    return read_settings(SSHSettings, ["ssh", *words], program="scaler_worker_manager", section="manager")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("node1", RemoteHost("node1", "node1")),
        ("ann@node1:22022=4", RemoteHost("ann@node1:22022", "node1", "ann", 22022, 4)),
        ("10.0.0.7=1", RemoteHost("10.0.0.7", "10.0.0.7", workers=1)),
        ("[fe80::1%eth0]:22", RemoteHost("[fe80::1%eth0]:22", "fe80::1%eth0", port=22)),
    ],
)
def test_a_host_is_read(text: str, host: RemoteHost) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize("text", ["", "-oProxyCommand=sh", "node1=0", "node1:0", "node1:70000", "a b", "x;y", "ann@"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host. Give HOST"):
        parse_host(text)


def spread(workers: int | None, *texts: str) -> dict[str, int]:
    return capacities([parse_host(each) for each in texts], workers)


def test_hosts_without_a_number_share_the_rest() -> None:
    assert spread(8, "a", "b=3", "c") == {"a": 3, "b": 3, "c": 2}
    assert spread(None, "a=2", "b=3") == {"a": 2, "b": 3}


@pytest.mark.parametrize(
    ("workers", "texts", "problem"),
    [
        (None, ("a", "b=1"), "a has no number of workers. Give a=WORKERS, or --num-of-workers."),
        (1, ("a", "b"), "1 workers cannot be spread over the hosts"),
        (9, ("a=4",), "9 workers cannot be spread over the hosts"),
        (2, ("a", "a"), "a is given twice."),
    ],
)
def test_numbers_that_do_not_fit(workers: int | None, texts: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        spread(workers, *texts)


@pytest.mark.parametrize("seed", range(100))
def test_new_workers_go_where_there_is_room(seed: int) -> None:
    chance = random.Random(seed)
    capacity = {name: chance.randint(0, 5) for name in "abc"}
    used = {name: chance.randint(0, limit) for name, limit in capacity.items()}
    room, count = sum(capacity.values()) - sum(used.values()), chance.randint(1, 12)
    given = assign(count, capacity, used)
    assert sum(given.values()) == min(count, room)
    assert all(0 < given[name] <= capacity[name] - used[name] for name in given)


def test_a_pause_doubles_up_to_a_limit_and_starts_over() -> None:
    pause, now, seen = RetryPause(), 100.0, []
    for _ in range(8):
        pause.on_started(now)
        pause.on_failed(now)
        seen.append(pause.remaining_seconds(now))
        now += seen[-1]
    assert seen == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
    assert pause.remaining_seconds(now) == 0
    pause.on_failed(now + STABLE_SECONDS)
    assert pause.remaining_seconds(now + STABLE_SECONDS) == 1


def test_the_pause_after_failures_that_do_not_pass_grows_faster_up_to_a_higher_limit() -> None:
    pause, now, seen = RetryPause(), 100.0, []
    for _ in range(5):
        pause.on_started(now)
        pause.on_failed(now, is_lasting=True)
        seen.append(pause.remaining_seconds(now))
        now += seen[-1]
    assert seen == [5, 40, 320, LONGEST_LASTING_PAUSE_SECONDS, LONGEST_LASTING_PAUSE_SECONDS]


@pytest.mark.parametrize(
    ("output", "code", "is_lasting"),
    [
        ("ann@node1: Permission denied (publickey,password).", 255, True),
        ("Host key verification failed.", 255, True),
        ("terminating, 1 bad configuration options", 255, True),
        ("sh: 1: exec: python3: not found", 127, True),
        ("ModuleNotFoundError: No module named 'scaler_worker'", 1, True),
        ("ssh: connect to host node1 port 22: Connection refused", 255, False),
        ("ssh: Could not resolve hostname node1: Temporary failure in name resolution", 255, False),
        ("", 255, False),
        ("", None, False),
    ],
)
def test_failures_that_do_not_pass_by_themselves_are_known(output: str, code: int | None, is_lasting: bool) -> None:
    assert is_lasting_failure(output, code) is is_lasting


def test_other_hosts_take_the_workers_of_one_that_does_not_let_anyone_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reason stays visible, and it gets work again when the others are full: then one attempt, after its pause."""
    stand_in_for_program(
        tmp_path / "ssh",
        f"""case "$*" in *bad*) echo once >> {tmp_path}/attempts
        echo 'bad: Permission denied (password).' >&2; exit 255;;
        esac; echo '{{"version": "{__version__}", "ready": true}}'; exec cat > /dev/null""",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    flags = ("--hosts", "bad=3,good=3", "--maximum-workers", "6")
    backend = SSHBackend(read(REMOTE, *flags))
    first = backend.start(2, ())
    assert [job.id for job in first] == ["bad-1", "good-2"]
    seen: dict[str, JobState] = {}

    def states() -> dict[str, JobState]:
        found = {job.id: job.state for job in backend.list()}
        seen.update(found)
        return found

    wait_until(lambda: states() == {"good-2": JobState.RUNNING} and seen["bad-1"] is JobState.WITHDRAWN)
    reason = "Cannot run workers on bad: it does not accept a key of yours and asks for a password."
    (sentence,) = backend.why_not()
    assert sentence.startswith(reason) and sentence.endswith("Other hosts are used instead.")
    assert [job.id for job in backend.start(4, ())] == ["good-3", "good-4", "bad-5", "bad-6"]
    wait_until(lambda: list(states().values()).count(JobState.RUNNING) == 3)
    (sentence,) = backend.why_not()
    assert sentence.startswith(f"2 workers are missing: {reason}")
    assert (tmp_path / "attempts").read_text() == "once\n"
    backend.stop(["good-2", "good-3", "good-4", "bad-5", "bad-6"])
    for job in list(backend._jobs.values()):
        if job._connection is not None:
            job._connection.end()
    wait_until(lambda: not states())


def test_hosts_that_fail_are_tried_by_one_job_at_a_time() -> None:
    record, (first, second) = HostRecord(), map(cast, (RemoteJob, RemoteJob), (object(), object()))
    assert record.may_try(first, 0.0) and record.may_try(second, 0.0)
    record.on_end(first)
    record.on_failed("It is lost.", 1.0)
    record.on_end(second)
    record.on_failed("It is lost.", 1.5)
    assert record.pause.remaining_seconds(1.5) == 0.5 and not record.may_try(first, 1.9)
    assert record.may_try(first, 2.0) and not record.may_try(second, 2.0)
    record.on_end(first)
    record.on_ready()
    assert record.may_try(first, 2.5) and record.may_try(second, 2.5)


@pytest.mark.parametrize(
    ("output", "code", "sentence"),
    [
        (
            "ann@node1: Permission denied (publickey,password).",
            255,
            "it does not accept a key of yours and asks for a password. Copy your public key to it with "
            "ssh-copy-id -p 7 ann@node1, and load your key with ssh-add if it has a passphrase.",
        ),
        (
            "No ED25519 host key is known for node1 and you have requested strict checking.\n"
            "Host key verification failed.",
            255,
            "its host key is unknown here. Run this once, compare the key, and accept it: ssh -p 7 ann@node1 true",
        ),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            255,
            "its host key is not the one that is known. If the host was set up again, run: ssh-keygen -R '[node1]:7'; "
            "then: ssh -p 7 ann@node1 true",
        ),
        (
            "ssh: connect to host node1 port 22: Connection refused",
            255,
            "no SSH server listens there. Start sshd on it, or give its port as node1:PORT.",
        ),
        (
            "ssh: connect to host node1 port 22: Connection timed out",
            255,
            "it does not answer. Check that it runs and is reachable.",
        ),
        (
            "ssh: Could not resolve hostname node1: Name or service not known",
            255,
            "no host of this name is known. Correct the name, or add it to ~/.ssh/config.",
        ),
        (
            "/c: line 1: Bad configuration option: foo\n/c: terminating, 1 bad configuration options",
            255,
            "the configuration of ssh is wrong. Correct what ssh says about it: ssh -p 7 ann@node1 true",
        ),
        (
            "sh: 1: exec: python3: not found",
            127,
            NO_PYTHON,
        ),
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'scaler_worker'",
            1,
            "its Python has no scaler-worker 1.0. Run there: python3 -m pip install scaler-worker==1.0; or give "
            "--remote-python the path of a Python that has it.",
        ),
        (
            "Too many authentication failures.\n",
            255,
            "ssh ended with code 255, saying: Too many authentication failures.",
        ),
        ("Permission denied", 126, NO_PYTHON),
        (
            "no such identity: /x: No such file or directory\nlost {it}",
            255,
            "ssh ended with code 255, saying: lost {it}.",
        ),
        ("", 255, "the connection was lost. Check the host and the network."),
        ("", -9, "ssh was ended by signal 9."),
        ("", None, "its workers did not start in time. Check its load and its file systems."),
    ],
)
def test_a_failure_is_explained(output: str, code: int | None, sentence: str) -> None:
    told = explain_failure(output, code, parse_host("ann@node1:7=2"), "python3", "1.0")
    assert told == f"Cannot run workers on ann@node1:7: {sentence}"


@pytest.mark.parametrize(
    "line",
    [
        "", "Welcome to node1", "[" * 100_000, "null", "[1]",
        '{"python": 3}', '{"python": [3, "11"]}', '{"python": [3]}', '{"version": ["1.0"]}', '{"ready": "yes"}',
        '{"failed": 1}', '{"ended": "0"}', '{"ended": true}', '{"log": {}}',
    ],
)  # fmt: skip
def test_what_a_host_should_not_say_is_no_fact(line: str) -> None:
    assert facts_in(line) == {}


def test_what_a_job_reports() -> None:
    assert facts_in('{"python": [3, 11], "other": 1}') == {"python": (3, 11)}
    assert facts_in('{"version": "1.0", "ready": true, "ended": -9}') == {"version": "1.0", "ready": True, "ended": -9}
    assert facts_in('{"log": "%s"}' % ("x" * 100_000)) == {"log": "x" * TEXT_LIMIT}


HOSTILE_SSH = """#!/bin/sh
printf '\\033[31mred\\n' >&2
head -c 3000000 /dev/zero | tr '\\0' x >&2
printf '{"log": "forged\\\\n[INFO] line \\\\u001b[2J"}\\n{"version": "1\\\\u001b"}\\n'
head -c 3000000 /dev/zero | tr '\\0' '['
exit 255
"""


def test_a_hostile_host_fills_no_memory_and_forges_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ssh").write_text(HOSTILE_SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    connection = SSHConnection(parse_host("node1"), None, None, {})
    wait_until(lambda: connection.exit_code is not None)
    assert connection.exit_code == 255
    assert connection.output.startswith("\\x1b[31mred\n") and len(connection.output) < 8 * TEXT_LIMIT
    assert connection.facts == {"version": "1\\x1b"}
    connection.close()
    assert capfd.readouterr().err == "node1: forged\\n[INFO] line \\x1b[2J\n"


def test_another_python_or_version_is_told() -> None:
    assert explain_python((3, 12), (3, 12), "a") is None and explain_version("1.0", "1.0", "a", "python3") is None
    assert explain_python((3, 9), (3, 12), "a") == (
        "Cannot run workers on a: it has Python 3.9, but this host has 3.12, and functions cannot be sent between "
        "them. Install Python 3.12 there, and give --remote-python its path."
    )
    assert explain_version("0.9", "1.0", "a", "python3") == (
        "Cannot run workers on a: it has scaler-worker 0.9, but this host has 1.0. Run there: python3 -m pip install "
        "scaler-worker==1.0"
    )
    assert (
        explain_end(2, "Cannot X: Y.", "a")
        == "Cannot run workers on a: scaler_cluster exited with code 2: Cannot X: Y."
    )
    assert explain_end(75, "", "a") == (
        "Cannot run workers on a: its provider takes the machine back. Give another host in its place."
    )
    assert explain_end(-9, "", "a") == "Cannot run workers on a: scaler_cluster was ended by signal 9. See its log."


def test_the_command_line_names_host_user_and_port_and_no_secret() -> None:
    command = ssh_command(parse_host("ann@[::1]:22022=2"), "file", "-T")
    assert command == ["ssh", "-T", "-F", "file", "-p", "22022", "-l", "ann", "--", "::1"]


def test_the_remote_command_runs_the_first_python_that_exists(tmp_path: Path) -> None:
    """In whichever shell the user has."""
    stand_in = tmp_path / "py 'thon"
    stand_in.write_text("#!/bin/sh\necho ran $1\n")
    stand_in.chmod(0o755)
    done = subprocess.run(["sh", "-c", remote_command(str(stand_in))], capture_output=True, text=True, timeout=30)
    assert done.stdout == "ran -c\n"
    done = subprocess.run(["sh", "-c", remote_command("/no/python")], capture_output=True, text=True, timeout=30)
    assert done.returncode == 127 and "not found" in done.stderr
    assert sys.executable in remote_command(None) and "python3" in remote_command(None)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([REMOTE], "^Cannot run workers through SSH: no hosts are given. Give --hosts HOST,HOST."),
        ([REMOTE, "--hosts", "a b=1"], "is not a host"),
        (["tcp://127.0.0.1:1", "--hosts", "node1=1"], "it cannot reach the scheduler at tcp://127.0.0.1:1"),
        ([REMOTE, "--hosts", "node1"], "Cannot use --hosts: node1 has no number of workers."),
        ([REMOTE, "--hosts", "node1=1", "--worker-names", "x"], "Leave out --worker-names"),
    ],
)
def test_settings_that_are_refused_by_this_kind(words: list[str], problem: str) -> None:
    with pytest.raises(BadInput, match=problem.replace(".", r"\.")):
        assert read(*words).worker_count


def test_a_host_without_ssh_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no/programs")
    with pytest.raises(BadInput, match=r"Cannot run ssh: this host has no such program\. Install openssh-client\."):
        SSHBackend(read(REMOTE, "--hosts", "node1=1"))


def test_a_configuration_of_ssh_that_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    sentence = r"Cannot read the --ssh-config '.*/none': No such file or directory\. Give a file that exists"
    with pytest.raises(BadInput, match=sentence):
        SSHBackend(read(REMOTE, "--hosts", "node1=1", "--ssh-config", str(tmp_path / "none")))


def test_the_address_for_hosts_that_are_given_as_one_text() -> None:
    assert address_for_hosts("localhost=1, 127.0.0.1:22=2,", None) == "tcp://127.0.0.1:0"
    with pytest.raises(BadInput, match="Cannot use hosts: 'a b' is not a host"):
        address_for_hosts("localhost,a b", None)


def test_a_wrong_configuration_of_ssh_is_not_taken_for_an_unknown_host(tmp_path: Path) -> None:
    sshd()  # skips the test where OpenSSH is missing
    with pytest.raises(BadInput, match="^Cannot use the configuration of ssh: .*none.*Correct it, or give another"):
        address_for_hosts(["node1"], str(tmp_path / "none"))


def test_a_job_that_does_not_answer_when_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_for_program(tmp_path / "ssh", """echo '{"version": "1.0.0", "ready": true}'; exec sleep 1000""")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    job = RemoteJob(
        parse_host("node1"), 2, read(REMOTE, "--hosts", "node1=2", "--grace-seconds", "3"), (), HostRecord()
    )
    wait_until(lambda: job.observe(0.0) is JobState.RUNNING)
    job.stop(100.0)
    assert (job.observe(117.0), job.why_not_ended(117.0)) == (JobState.RUNNING, "")
    job.observe(118.0)
    assert job.why_not_ended(118.0) == (
        "Cannot stop the workers on node1: it has not answered for 18 s. If its network fails, they end by themselves "
        "within 300 s."
    )
    wait_until(lambda: job.observe(119.0) is None)


def test_an_ssh_that_hangs_and_keeps_its_pipes_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither it nor its ProxyCommand ends when it is asked to."""
    stand_in_for_program(tmp_path / "ssh", """trap '' TERM; sleep 1000 & touch "$0.hangs"; exec sleep 1000""")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    record = HostRecord()
    job = RemoteJob(parse_host("node1"), 2, read(REMOTE, "--hosts", "node1=2"), (), record)
    now = time.monotonic()
    assert job.observe(now) is JobState.STARTING and record.reason == ""
    wait_until((tmp_path / "ssh.hangs").exists)
    late = now + 2 * START_SECONDS
    wait_until(lambda: job.observe(late) is JobState.STARTING and record.reason)
    assert record.reason == (
        "Cannot run workers on node1: its workers did not start in time. Check its load and its file systems."
    )
    assert record.pause.remaining_seconds(late) == 1
    job.stop(late)
    assert job.observe(late) is None


def test_an_ssh_whose_child_keeps_its_pipes_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a connection to a jump host that other ssh share: it stays, and writes to what was the stderr of ssh."""
    stand_in_for_program(
        tmp_path / "ssh",
        """setsid sh -c 'while echo still here; do sleep 0.01; done' & echo $! > "$0.child"
        echo 'ssh: connect to host node1 port 22: Connection refused' >&2; exit 255""",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    record = HostRecord()
    job = RemoteJob(parse_host("node1"), 1, read(REMOTE, "--hosts", "node1=1"), (), record)
    now = time.monotonic()
    wait_until(lambda: job.observe(now) is JobState.STARTING and record.reason)
    assert "no SSH server listens there" in record.reason
    job.stop(now)
    assert job.observe(now) is None
    wait_until(lambda: not alive(int((tmp_path / "ssh.child").read_text())))


def test_an_ssh_that_has_ended_is_killed_with_its_children_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number stays its own until it is reaped."""
    stand_in_for_program(tmp_path / "ssh", """sleep 1000 & echo $! > "$0.child"; exit 3""")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    connection = SSHConnection(parse_host("node1"), None, None, {})
    wait_until(lambda: connection.exit_code is not None)
    child = int((tmp_path / "ssh.child").read_text())
    assert connection.exit_code == 3
    assert os.waitid(os.P_PGID, os.getpgid(child), os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    connection.close()
    wait_until(lambda: not alive(child))
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("it signals a number that may be of another process"))
    connection.end()


def test_a_job_that_gets_no_order_ends() -> None:
    """As behind a network that fails without a message: stdin stays open, with a part of the order."""
    program = "from scaler_worker.manager import remote_job; remote_job.ORDER_SECONDS = 0.1; remote_job.main()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin is not None and job.stdout is not None
        job.stdin.write(b'{"address": ')
        job.stdin.flush()
        assert "it has received no order from this manager" in json.loads(job.stdout.readlines()[-1])["failed"]
        assert job.wait() == 0


def test_the_number_of_workers_is_that_of_the_hosts() -> None:
    assert read(REMOTE, "--hosts", "a=2,b=3").worker_count == 5
    assert read(REMOTE, "--hosts", "a=2,b,c", "-n", "6").host_capacities == {"a": 2, "b": 2, "c": 2}


def test_hosts_get_the_keys_of_workers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    assert keys_for_workers(REMOTE) == {}
    generate(tmp_path, new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path))
    sent = keys_for_workers(REMOTE)
    assert sorted(sent) == ["admin.pub", "observe.pub", "scheduler.pub", "submit.pub", "work.key", "work.pub"]
    assert sent["work.key"] == (tmp_path / "work.key").read_text().strip()
    (tmp_path / "work.key").unlink()
    with pytest.raises(BadInput, match=r"work\.key: it is missing"):
        keys_for_workers(REMOTE)


def test_a_memory_folder_that_cannot_be_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler_protocol.private_folder._MEMORY", tmp_path)
    with pytest.raises(OSError):
        MemoryFolder({"no such folder/work.key": b"secret"})
    assert list(tmp_path.iterdir()) == []


def test_a_memory_folder_is_private_and_an_abandoned_one_is_removed() -> None:
    abandoned = MemoryFolder({"work.key": b"secret"})
    assert stat.S_IMODE(abandoned.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((abandoned.path / "work.key").stat().st_mode) == 0o600
    living = MemoryFolder()
    assert abandoned.path.exists()
    os.close(abandoned._lock)  # as when its process is killed
    abandoned._lock = -1
    living.remove()
    MemoryFolder().remove()
    assert not abandoned.path.exists() and not living.path.exists()
