"""``scaler_worker_manager ssh``: workers on hosts that a real OpenSSH server gives access to."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SSHCluster
from scaler_protocol.key_files import generate
from scaler_protocol.private_folder import MemoryFolder
from scaler_protocol.transport.curve_authentication import new_key_pair
from scaler_worker import __version__
from scaler_worker.manager.remote_job import BOOTSTRAP
from tests.cluster.conftest import Gate
from tests.support.commands import (
    REPOSITORY,
    Command,
    alive,
    child_environment,
    command_line,
    descendants,
    start_scheduler,
)
from tests.support.documentation import MANAGERS, program_with
from tests.support.functions import wait_at_gate
from tests.support.manager_scenarios import load_until
from tests.support.namespaces import on, two_hosts
from tests.support.ports import free_address, free_port
from tests.support.slurm_site import network_address
from tests.support.ssh_server import SSHServer, ssh_server, stand_in_for_program
from tests.support.waiting import wait_until

PYTHON = f"--remote-python={sys.executable}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SSHServer]:
    folder = tmp_path / "server"
    folder.mkdir()
    with ssh_server(folder) as running:
        yield running


@pytest.fixture
def address(keys: Path) -> Iterator[str]:
    found = free_address()
    with start_scheduler(found, "--protected=False"):
        yield found


def manager(server: SSHServer, address: str, hosts: str, *flags: object) -> Command:
    config = [] if any("--ssh-config" in str(each) for each in flags) else [f"--ssh-config={server.config}"]
    arguments = command_line("scaler_worker_manager", "ssh", address, "--hosts", hosts, *config, PYTHON, *flags)
    return Command(arguments, child_environment())


def is_empty(server: SSHServer) -> bool:
    """Nothing that it has started runs."""
    return not server.command.family()


def test_tasks_run_on_a_host_that_has_no_keys(server: SSHServer, address: str) -> None:
    with manager(server, address, f"{server.name}=2", "--per-worker-capabilities", "blue") as command:
        with Client(address) as client:
            assert client.submit_verbose(pow, (2, 5), {}, capabilities={"blue": 1}).result() == 32
            assert client.submit(os.getppid).result() in [each.pid for each in server.command.family()]
            secret = (Path(os.environ["SCALER_KEYS"]) / "work.key").read_text().strip()
            lines = [" ".join(each.cmdline()) for each in (*command.family(), *server.command.family())]
            assert lines and not any(secret in line for line in lines)
        command.wait_for_output(rf"{server.name}: .*Worker\[1\] started")
        assert command.terminate() == 0
    wait_until(lambda: is_empty(server))


def test_running_tasks_finish_when_the_manager_is_stopped(server: SSHServer, address: str, gate: Gate) -> None:
    with manager(server, address, f"{server.name}=1", "--grace-seconds=60") as command, Client(address) as client:
        task = client.submit(wait_at_gate, *gate.paths, "done")
        wait_until(lambda: gate.waiting_pids)
        command.signal(signal.SIGTERM)
        gate.open()
        assert task.result() == "done"
        assert command.wait() == 0
    wait_until(lambda: is_empty(server))


def test_the_number_of_workers_on_a_host_follows_the_load(server: SSHServer, address: str) -> None:
    """With keys: the manager connects to the scheduler with the key of its workers."""
    scaling = ("--maximum-workers=3", "--target-seconds=1", "--cool-down-seconds=0.1")
    with manager(server, address, server.name, *scaling) as command, Client(address) as client:
        load_until(client, lambda: len(server.processes("scaler_worker.cli")) == 3)
        wait_until(lambda: is_empty(server))
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


@pytest.mark.parametrize("word", ["sshd: ", "remote_job", "scaler_worker.cli"])
def test_what_is_killed_on_the_host_is_replaced(server: SSHServer, address: str, word: str) -> None:
    """The session of sshd, the process that watches, and the agent."""
    with manager(server, address, f"{server.name}=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        family = [each.pid for each in server.command.family()]
        killed = server.processes(word)
        assert killed
        os.kill(killed[-1], signal.SIGKILL)
        command.wait_for_output(rf"1 worker is missing: Cannot run workers on {server.name}: .* The next attempt is")
        wait_until(lambda: not any(map(alive, family)))
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0
    wait_until(lambda: is_empty(server))


@pytest.mark.parametrize("victim", ["manager", "ssh"])
def test_a_killed_manager_or_connection_leaves_nothing(server: SSHServer, address: str, victim: str) -> None:
    with manager(server, address, f"{server.name}=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        family = [each.pid for each in (*server.command.family(), *command.family())]
        (connection,) = command.family()
        if victim == "manager":
            command.kill()
        else:
            connection.kill()
        wait_until(lambda: not any(map(alive, family)))


def test_a_manager_that_is_killed_before_python_runs_on_the_host_leaves_nothing(
    server: SSHServer, address: str, gate: Gate
) -> None:
    started, opened = gate.paths
    script = f'echo $$ >> {started}\nwhile [ ! -e {opened} ]; do sleep 0.05; done\nexec {sys.executable} "$@"'
    slow = stand_in_for_program(server.folder / "bin" / "python", script)
    with manager(server, address, f"{server.name}=1", f"--remote-python={slow}") as command:
        wait_until(lambda: gate.waiting_pids)
        command.kill()
        gate.open()
        wait_until(lambda: is_empty(server))


def test_a_manager_that_is_killed_while_workers_start_leaves_nothing(
    server: SSHServer, address: str, gate: Gate
) -> None:
    (server.folder / "slow_start.py").write_text(
        f"from tests.support.functions import wait_at_gate\n\ndef begin():\n    wait_at_gate{gate.paths}\n"
    )
    python = stand_in_for_program(
        server.folder / "bin" / "python", f'export PYTHONPATH={server.folder}:$PYTHONPATH\nexec {sys.executable} "$@"'
    )
    flags = ("--preload=slow_start:begin", f"--remote-python={python}")
    with manager(server, address, f"{server.name}=1", *flags) as command:
        wait_until(lambda: gate.waiting_pids)
        family = [each.pid for each in server.command.family()]
        command.kill()
        wait_until(lambda: not any(map(alive, family)))


def test_a_lost_host_does_not_delay_the_others(server: SSHServer, address: str) -> None:
    lost = f"127.0.0.1:{free_port()}"
    with manager(server, address, f"{lost},{server.name}", "-n", 2) as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        command.wait_for_output(
            rf"1 worker is missing: Cannot run workers on {lost}: no SSH server listens there. Start sshd on it, or "
            r"give its port as 127.0.0.1:PORT. The next attempt is in 1 s."
        )
        os.kill(server.processes("scaler_worker.cli")[0], signal.SIGKILL)
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_the_manager_ends_with_its_scheduler_far_away(server: SSHServer, address: str) -> None:
    with manager(server, address, f"{server.name}=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        client.shutdown()
        assert command.wait() == 0
    wait_until(lambda: is_empty(server))


def test_a_job_ends_when_its_manager_is_silent(address: str, keys: Path) -> None:
    """As behind a network that fails without a message: stdin stays open."""
    order = {
        "address": address,
        "arguments": [address, "--num-of-workers=1"],
        "keys": {path.name: path.read_text() for path in keys.iterdir()},
        "silence_seconds": 3,
    }
    with subprocess.Popen(
        [sys.executable, "-c", BOOTSTRAP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdin is not None and job.stdout is not None
        job.stdin.write(json.dumps(order) + "\n")
        job.stdin.flush()
        lines = [json.loads(line) for line in job.stdout]
        assert {"ready": True} in lines and "ended" in lines[-1]


# ---- what is told ----------------------------------------------------------------------------------------------------


def expect(server: SSHServer, reason: str, *flags: object, address: str = "tcp://127.0.0.1:1") -> None:
    with manager(server, address, f"{server.name}=1", *flags) as command:
        found = command.wait_for_output(rf"Cannot run workers on {server.name}: (.*?) The next attempt")
        assert found[1].startswith(reason)
        assert "Traceback" not in command.output
        assert command.terminate() == 0


def test_a_host_that_asks_for_a_password(server: SSHServer) -> None:
    reason = "it does not accept a key of yours and asks for a password. Copy your public key to it with ssh-copy-id -p"
    expect(server, reason, f"--ssh-config={server.config_without('Identit')}", address="tcp://127.0.0.1:1")


def test_a_host_whose_key_is_unknown(server: SSHServer) -> None:
    expect(server, "its host key is unknown here.", f"--ssh-config={server.config_without('UserKnown')}")


def test_a_host_without_the_program(server: SSHServer) -> None:
    expect(server, "it has no program /no/python. Give --remote-python", "--remote-python=/no/python")


def test_a_host_with_another_python(server: SSHServer) -> None:
    other = stand_in_for_program(server.folder / "other", "echo '{\"python\": [3, 9]}'; exec cat")
    expect(server, "it has Python 3.9, but this host has ", f"--remote-python={other}")


def test_a_host_with_another_version(server: SSHServer) -> None:
    facts = f'{{"python": [{sys.version_info[0]}, {sys.version_info[1]}], "version": "0.9"}}'
    other = stand_in_for_program(server.folder / "other", f"echo '{facts}'; exec cat")
    expect(server, f"it has scaler-worker 0.9, but this host has {__version__}.", f"--remote-python={other}")


def test_a_host_without_scaler(server: SSHServer) -> None:
    bare = stand_in_for_program(server.folder / "bare", f'exec {sys.executable} -I -S "$@"')
    expect(server, f"its Python has no scaler-worker {__version__}.", f"--remote-python={bare}")


def test_a_host_that_cannot_reach_the_scheduler(server: SSHServer) -> None:
    address = free_address()
    expect(server, f"it cannot reach the scheduler at {address} (Connection refused).", address=address)


def test_an_option_that_the_workers_refuse(server: SSHServer, address: str) -> None:
    reason = "scaler_cluster refused to start: Cannot offer widget=2 at each of 1 workers:"
    expect(server, reason, "--per-worker-capabilities=widget=2", address=address)


def test_workers_whose_keys_the_scheduler_does_not_know(
    server: SSHServer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path / "others", new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "others"))
    expect(server, "scaler_cluster exited with code ", "--death-timeout-seconds=3", address=address)


# ---- from Python -----------------------------------------------------------------------------------------------------


def test_one_call_starts_a_scheduler_and_workers(server: SSHServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    hosts = [f"{server.name}=1"]
    with SSHCluster(hosts, ssh_config=str(server.config), remote_python=sys.executable) as cluster:
        folder = Path(os.environ["SCALER_KEYS"])
        with Client(cluster.get_address()) as client:
            assert client.submit(os.getppid).result() in [each.pid for each in server.command.family()]
    assert "SCALER_KEYS" not in os.environ and not folder.exists()
    wait_until(lambda: is_empty(server))


def test_a_call_that_reaches_no_host_says_why(server: SSHServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    with pytest.raises(ValueError, match="it has no program /no/python"):
        SSHCluster([f"{server.name}=1"], ssh_config=str(server.config), remote_python="/no/python")
    assert "SCALER_KEYS" not in os.environ


def test_a_call_that_follows_the_load_waits_for_its_hosts(server: SSHServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for its manager any more when the first job starts, so that it must not give up."""
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    python = server.folder / "bin" / "python"
    cluster = SSHCluster([server.name], maximum_workers=1, ssh_config=str(server.config), remote_python=str(python))
    with cluster, Client(cluster.get_address()) as client:
        task = client.submit(abs, -1)
        wait_until(lambda: any("it has no program" in each.value for each in client.cluster_info().snapshot.settings))
        stand_in_for_program(python, f'exec {sys.executable} "$@"')
        assert task.result() == 1
    wait_until(lambda: is_empty(server))


KILLED_SCRIPT = """
import os, sys
from scaler import Client, SSHCluster

with SSHCluster([sys.argv[1]], ssh_config=sys.argv[2], remote_python=sys.executable) as cluster:
    with Client(cluster.get_address()) as client:
        print(client.submit(abs, -1).result(), os.environ["SCALER_KEYS"])
        sys.stdin.read()
"""


def test_a_killed_application_leaves_nothing_on_the_host(server: SSHServer, tmp_path: Path) -> None:
    environment = child_environment()
    environment.pop("SCALER_KEYS", None)
    arguments = [sys.executable, "-c", KILLED_SCRIPT, f"{server.name}=1", str(server.config)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as application:
        assert application.stdout is not None
        result, folder = application.stdout.readline().split()
        family = [each.pid for each in (*server.command.family(), *descendants(application.pid))]
        assert result == "1" and family
        application.kill()
        wait_until(lambda: not any(map(alive, family)))
    MemoryFolder().remove()
    assert not Path(folder).exists()


SCRIPT = """
import socket, sys
from scaler import Client, SSHCluster

def addresses():
    return socket.gethostname(), open("/proc/net/fib_trie").read()

with SSHCluster([sys.argv[1]], ssh_config=sys.argv[2], remote_python=sys.executable) as cluster:
    with Client(cluster.get_address()) as client:
        assert "10.77.0.2" in client.submit(addresses).result()[1]
        print(cluster.get_address(), len(client.submit(bytes, 5_000_000).result()))
"""


def test_the_program_of_the_first_second_machine_runs(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "managers.md").read_text()
    (program,) = re.findall(r"^   ```python\n(.*?)^   ```$", page, re.MULTILINE | re.DOTALL)
    assert 'remote_python="scaler/bin/python"' in program
    (tmp_path / "first.py").write_text(textwrap.dedent(program).replace("scaler/bin/python", sys.executable))
    with two_hosts(("10.77.0.1", "10.77.0.2")) as (here, there), ssh_server(tmp_path, "10.77.0.2", on(there)) as server:
        with server.config.open("a") as config:
            config.write(f"Host there\n  HostName 10.77.0.2\n  Port {server.port}\n")
        stand_in_for_program(tmp_path / "bin" / "ssh", f'exec {shutil.which("ssh")} -F {server.config} "$@"')
        environment = child_environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        environment.pop("SCALER_KEYS", None)
        with Command([*on(here), sys.executable, str(tmp_path / "first.py")], environment) as script:
            assert script.wait(90) == 0 and script.output == f"{socket.gethostname()}\n", script.output


def test_the_program_of_the_page_of_managers_runs(tmp_path: Path) -> None:
    """Both of its hosts are this one."""
    address = network_address()
    with ssh_server(tmp_path, address) as server:
        with server.config.open("a") as config:
            config.write(f"Host node1 node2\n  HostName {address}\n  Port {server.port}\n")
        stand_in_for_program(tmp_path / "bin" / "ssh", f'exec {shutil.which("ssh")} -F {server.config} "$@"')
        environment = child_environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        environment.pop("SCALER_KEYS", None)
        program = program_with(MANAGERS, "SSHCluster")
        with Command([sys.executable, "-c", program], environment) as script:
            assert script.wait(90) == 0 and script.output == "[1, 2]\n", script.output
        wait_until(lambda: is_empty(server))


def test_one_call_reaches_a_second_host(tmp_path: Path) -> None:
    """Two hosts with networks of their own: scheduler and client on one, workers on the other."""
    with two_hosts(("10.77.0.1", "10.77.0.2")) as (here, there):
        with ssh_server(tmp_path, "10.77.0.2", on(there)) as server:
            (tmp_path / "script.py").write_text(SCRIPT)
            arguments = [sys.executable, str(tmp_path / "script.py"), f"{server.name}=1", str(server.config)]
            environment = child_environment()
            environment.pop("SCALER_KEYS", None)
            with Command([*on(here), *arguments], environment) as script:
                assert script.wait(90) == 0, script.output
                assert "tcp://10.77.0.1:" in script.output and "5000000" in script.output
            wait_until(lambda: not server.processes("scaler_worker"))
