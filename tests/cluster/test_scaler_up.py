"""``scaler init``, ``up`` and ``down``: a stack of real processes from one file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from scaler import Client
from scaler.command import stack
from scaler.command.settings import DownSettings
from scaler.command.stack_lock import StackLock
from scaler.command.stack_template import TEMPLATE
from scaler_protocol.command import read_settings
from scaler_scheduler.config import SchedulerSettings
from scaler_scheduler.web.cli import UiSettings
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.ssh_config import SSHSettings
from tests.support.commands import Command, child_environment, command_line
from tests.support.ports import free_address, free_port
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def address(tmp_path: Path) -> str:
    """Of the scheduler in cluster.toml."""
    found = free_address()
    text = f'[scheduler]\naddress = "{found}"\n[cluster]\nnum-of-workers = 1\n[ui]\nport = 0\n'
    (tmp_path / "cluster.toml").write_text(text)
    return found


def scaler(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line("scaler", *arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env=child_environment(),
    )  # fmt: skip


@pytest.fixture
def running(address: str) -> Iterator[Command]:
    with Command(command_line("scaler", "up"), child_environment()) as command:
        command.wait_for_output(r"The stack is up\.")
        command.remember_family()
        yield command


def test_what_init_writes_starts_as_it_is(address: str, tmp_path: Path) -> None:
    done = scaler("init", "mine.toml")
    assert (done.returncode, done.stdout) == (0, "Wrote mine.toml. Edit it, then run: scaler up mine.toml\n")
    text = Path("mine.toml").read_text().replace("tcp://127.0.0.1:2345", address).replace("50001", str(free_port()))
    Path("mine.toml").write_text(text)
    assert scaler("up", "mine.toml", "--detach").returncode == 0
    try:
        with Client(address) as client:
            assert client.submit(abs, -1).result() == 1
    finally:
        assert scaler("down", "mine.toml").stdout == "Stopped the stack of mine.toml.\n"


def test_the_stack_runs_without_the_packages_of_the_web_monitor(address: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['aiohttp'] = None\n")
    environment = child_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    with Command(command_line("scaler", "up"), environment) as command:
        command.wait_for_output(r"The stack is up\.")
        said = "web monitor: left out, since scaler-scheduler[ui] is not installed. To have it, run pip install"
        assert said in command.output
        with Client(address) as client:
            assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_every_option_in_the_template_exists(tmp_path: Path) -> None:
    text = re.sub(r"^# ?(?=\[|[a-z-]+ = )", "", TEMPLATE.format(name="x"), flags=re.MULTILINE)
    text = re.sub(r'^address = "tcp://0.*\n', "", text, flags=re.MULTILINE)
    tomllib.loads(text)
    Path("x.toml").write_text(text)
    config = ["--config", "x.toml"]
    read_settings(SchedulerSettings, config, program="scaler_scheduler", section="scheduler")
    read_settings(ClusterSettings, ["tcp://127.0.0.1:1", *config], program="scaler_cluster", section="cluster")
    read_settings(UiSettings, config, program="scaler_ui", section="ui")
    read_settings(SSHSettings, ["ssh", *config], program="scaler_worker_manager", section="manager")


def test_a_file_is_not_overwritten(address: str) -> None:
    done = scaler("init")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cluster.toml: it exists. Choose another name" in done.stderr


def test_ctrl_c_stops_everything_in_order(running: Command, address: str) -> None:
    with Client(address) as client:
        assert client.map(abs, [-1, -2]) == [1, 2]
    running.signal(signal.SIGINT)
    assert running.wait() == 0
    stopped = re.findall(r"scaler up: (.*): stopped", running.output)
    assert stopped == ["web monitor", "workers", "scheduler"]


def test_several_managers_of_one_file() -> None:
    address = free_address()
    manager = '[[manager]]\nname = "{}"\nkind = "local"\nnum-of-workers = 1\nper-worker-capabilities = ["{}"]\n'
    text = f'[scheduler]\naddress = "{address}"\n' + manager.format("left", "red") + manager.format("right", "blue")
    Path("cluster.toml").write_text(text)
    with Command(command_line("scaler", "up"), child_environment()) as command:
        command.wait_for_output(r"The stack is up\.")
        command.remember_family()
        with Client(address) as client:
            for capability in ("red", "blue"):
                assert client.submit_verbose(abs, (-1,), {}, capabilities={capability: 1}).result() == 1
        command.signal(signal.SIGINT)
        assert command.wait() == 0
        stopped = re.findall(r"scaler up: (.*): stopped", command.output)
    assert stopped == ["worker manager right", "worker manager left", "scheduler"]
    done = subprocess.run(
        command_line("scaler_worker_manager", "local", address, "--config=cluster.toml"), capture_output=True, text=True
    )
    assert done.returncode == 2 and "Give --name one of left, right." in done.stderr


def test_it_runs_once(running: Command) -> None:
    again = scaler("up")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert f"it runs in process {running.pid}. Stop it with: scaler down cluster.toml" in again.stderr


def test_down_stops_it_from_elsewhere(running: Command) -> None:
    assert scaler("down").stdout == "Stopped the stack of cluster.toml.\n"
    assert running.wait() == 0
    assert scaler("down").stdout == "Nothing runs from cluster.toml.\n"


def test_down_of_a_stack_that_ends_at_that_moment(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its process has ended, and the system still holds the lock."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    lock = StackLock(Path("cluster.toml").absolute())
    assert lock.acquire()
    lock.log_path.with_suffix("").write_text(str(ended.pid))
    monkeypatch.setattr(stack, "time", SimpleNamespace(sleep=lambda seconds: lock.release()))
    assert stack.down(DownSettings(file="cluster.toml")) == 0
    assert capsys.readouterr().out == "Stopped the stack of cluster.toml.\n"


def test_nothing_outlives_a_killed_stack(running: Command) -> None:
    members = running.family()
    assert len(members) > 3
    running.kill()
    wait_until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in members))
    assert scaler("down").stdout == "Nothing runs from cluster.toml.\n"


def test_a_killed_scheduler_is_started_again(running: Command, address: str) -> None:
    with Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        scheduler = next(each for each in running.family() if "scaler_scheduler.cli" in each.cmdline())
        os.kill(scheduler.pid, signal.SIGKILL)
        assert client.submit(abs, -2).result() == 2


def test_it_runs_in_the_background(address: str) -> None:
    done = scaler("up", "--detach")
    try:
        assert (done.returncode, done.stderr) == (0, "")
        assert f"scaler up: scheduler: {address}\n" in done.stdout and "scaler up: web monitor: http://" in done.stdout
        with Client(address) as client:
            assert client.submit(abs, -1).result() == 1
    finally:
        down = scaler("down")
    assert down.stdout == "Stopped the stack of cluster.toml.\n"
    assert re.findall(r"scaler up: (.*): stopped", down.stderr) == ["web monitor", "workers", "scheduler"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has none of the sections [scheduler], [cluster], [manager], [ui]. Add one."),
        ("[scheduler", "it is not a TOML file"),
        ('[scheduler]\nadress = "tcp://127.0.0.1:1"', "Unknown key adress in"),
        ("[scheduler]\n", "Missing argument ADDRESS"),
        ("[manager]\nnum-of-workers = 2\n", 'has no kind. Add one, such as: kind = "local"'),
        ("[scheduler]\naddress = 'tcp://127.0.0.1:0'\n[cluter]\n", "Unknown section [cluter]"),
        ("[[cluster]]\n[[cluster]]\n", "a file has one section [cluster]"),
        ('[[manager]]\nkind = "local"\n[[manager]]\nkind = "ssh"\n', "give each of them a name of its own"),
        ('[[manager]]\nname = "a"\n[[manager]]\nname = "b"\n', "has no kind"),
        ("[cluster]\nnum-of-workers = 0\n", "Give 1 or more"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--detach",)])
def test_a_wrong_file_is_one_sentence(text: str, sentence: str, flags: tuple[str, ...]) -> None:
    Path("cluster.toml").write_text(text)
    done = scaler("up", *flags)
    assert done.returncode == 2 and sentence in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_names_init() -> None:
    done = scaler("up", "other.toml")
    assert done.returncode == 2 and "Write one with: scaler init " in done.stderr
