"""``scaler doctor`` finds a firewall between two hosts."""

from __future__ import annotations

import shutil

import pytest

from tests.support.commands import Command, command_line
from tests.support.namespaces import on, run, two_hosts
from tests.support.ports import free_port
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
