"""``scaler doctor`` finds a firewall between two hosts, file systems that are too small, and other software."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import Command, child_environment, command_line, run_command, start_scheduler
from tests.support.namespaces import on, run, two_hosts
from tests.support.ports import free_address, free_port
from tests.support.waiting import wait_until

ADDRESSES = ("10.231.11.1", "10.231.11.2")


def named(name: str, *command: str) -> list[str]:
    """``command`` on a host that is called ``name``."""
    return ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', name, *command]


def test_a_firewall_between_two_hosts() -> None:
    if not (shutil.which("iptables") and shutil.which("unshare")):
        pytest.skip("the firewall is made with iptables, and the names with unshare")
    with two_hosts(ADDRESSES) as names:
        port = str(free_port())
        address = f"tcp://{ADDRESSES[0]}:{port}"
        rule = ("-A", "INPUT", "-i", names[0], "-p", "tcp", "--syn", "!", "--dport", port, "-j", "REJECT")
        run(*on(names[0]), "iptables", *rule)
        with Command([*on(names[0]), *command_line("scaler_scheduler", address, "--insecure")]) as scheduler:
            scheduler.wait_for_output("monitor address is")
            first, second = (
                Command([*on(name), *named(host, *command_line("scaler_cluster", "-n", "1", address))])
                for name, host in zip(names, ("vm-a", "vm-b"), strict=True)
            )
            with first, second:
                wait_until(lambda: scheduler.output.count("joined with") == 2)
                doctor = Command([*on(names[0]), *named("here", *command_line("scaler", "doctor", address))])
                with doctor:
                    code, shown = doctor.wait(60), doctor.output
                assert code == 0, shown
                assert f"[warn] vm-b cannot connect to vm-a at {ADDRESSES[0]}:" in shown
                assert shown.count("cannot connect") == 1
                for each in (first, second, scheduler):
                    each.remember_family()


FULL_FILE_SYSTEMS = """
hostname vm-b
mount -t tmpfs -o size=512k none /dev/shm
mount -t tmpfs -o size=512k none "$0"
exec "$@"
"""


def test_file_systems_that_are_too_small_on_a_host(tmp_path: Path) -> None:
    isolated = ["unshare", "--uts", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*isolated, "true"], capture_output=True, timeout=30).returncode:
        pytest.skip("no host with a name and file systems of its own can be made here")
    (spill := tmp_path / "spill").mkdir()
    address = free_address()
    host = [*isolated, "sh", "-c", FULL_FILE_SYSTEMS, str(spill)]
    worker = command_line("scaler_cluster", "-n", "1", address, "--spill-directory", spill)
    with start_scheduler(address), Command([*host, *worker]) as agent:
        agent.wait_for_output(r"Worker\[0\] started")
        done = run_command("scaler", "doctor", address)
        agent.remember_family()
    lines = done.stdout.splitlines()
    problems = [line for line in lines if line.startswith(("[warn] vm-b", "[fail]"))]
    assert (done.returncode, done.stderr, len(problems)) == (0, "", 2), lines
    for text, remedy in (
        ("/dev/shm has only 0 MiB left", "enlarge it"),
        (f"{spill} has only 0 MiB left", "or give scaler_cluster there another --spill-directory"),
    ):
        (line,) = (line for line in problems if line.startswith(f"[warn] vm-b: {text}"))
        assert remedy in lines[lines.index(line) + 1]


OTHER_SOFTWARE = """
import platform, time
now = time.time
time.time = lambda: now() + 40
platform.python_version = lambda: "3.4.10"
"""


def test_a_host_with_another_clock_python_and_package(tmp_path: Path) -> None:
    """Python on that host believes so: it finds a module and a distribution before all others."""
    if not shutil.which("unshare") or subprocess.run(named("vm-c", "true"), capture_output=True, timeout=30).returncode:
        pytest.skip("no host with a name of its own can be made here")
    (tmp_path / "sitecustomize.py").write_text(OTHER_SOFTWARE)
    (described := tmp_path / "cloudpickle-0.1.dist-info").mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudpickle\nVersion: 0.1\n")
    address = free_address()
    environment = child_environment()
    environment["PYTHONPATH"] = os.pathsep.join((str(tmp_path), environment["PYTHONPATH"]))
    worker = named("vm-c", *command_line("scaler_cluster", "-n", "1", address))
    with start_scheduler(address), Command(worker, environment) as agent:
        agent.wait_for_output(r"Worker\[0\] started")
        done = run_command("scaler", "doctor", address)
        agent.remember_family()
    found = [line for line in done.stdout.splitlines() if line.startswith(("[warn] vm-c: it", "[fail] vm-c: it"))]
    assert done.returncode == 1 and len(found) == 3, done.stdout
    for line, start in zip(
        found,
        (
            "[fail] vm-c: its workers have Python 3.4.10, but this host has",
            "[warn] vm-c: it has cloudpickle 0.1, but this host has",
            "[warn] vm-c: its clock is ",
        ),
        strict=True,
    ):
        assert line.startswith(start), line
    assert 30 < float(found[2].split()[5]) <= 40
