"""The conclusions of ``scaler doctor``."""

from __future__ import annotations

import inspect
import socket
from pathlib import Path
from typing import Any

import pytest

from scaler.command import host_facts as host_facts_module
from scaler.command.doctor import HostAnswer
from scaler.command.findings import (
    Finding,
    Severity,
    certain_offset_seconds,
    of_client_host,
    of_clock,
    of_host,
    of_missing_stores,
    of_ways,
    versions_of,
)
from scaler.command.host_facts import host_facts
from scaler_protocol.objects.spilling import default_directory

OURS = {
    "host": "here", "began": 0.0, "ended": 0.0, "python": "3.12.1", "scaler": "1.4.0",
    "packages": {"numpy": "2.1.0", "cloudpickle": "3.1.0"}, "descriptors": 65536, "processes": -1,
    "spill_directory": "/var/tmp", "spill_bytes": 1 << 40, "spill_capacity_bytes": 1 << 41, "memory_files": True,
    "shared_memory_bytes": 1 << 30,
    "group_memory_bytes": 0,
    "unreachable": [], "cpus": 4,
}  # fmt: skip


def findings(offset_seconds: float = 0.0, **theirs: Any) -> list[Finding]:
    return list(of_host({**OURS, "host": "there", **theirs}, OURS, offset_seconds, 4, "1.2.0"))


def test_a_host_like_this_one_has_one_line() -> None:
    assert findings() == [Finding(Severity.OK, "there: Python 3.12.1, 4 CPUs, packages and limits fit.")]
    same = {"numpy": "2.1.4", "cloudpickle": "3.1.1"}
    assert [each.severity for each in findings(python="3.12.7", packages=same)] == [Severity.OK]


@pytest.mark.parametrize(
    ("theirs", "severity", "text"),
    [
        ({"scaler": "2.0.1"}, Severity.WARNING, "there: its workers have version 2.0.1, but the scheduler has 1.2.0."),
        ({"python": "3.11.9"}, Severity.FAILURE, "there: its workers have Python 3.11.9, but this host has 3.12.1."),
        ({"packages": {"numpy": "2.1.0"}}, Severity.WARNING, "there: it has no cloudpickle, but this host has"),
        (
            {"packages": {"numpy": "1.26.0", "cloudpickle": "3.1.0"}},
            Severity.WARNING,
            "there: it has numpy 1.26.0, but this host has 2.1.0.",
        ),
        ({"offset_seconds": 3.5}, Severity.WARNING, "there: its clock is 3.5 s ahead of this host's."),
        ({"offset_seconds": -3.5}, Severity.WARNING, "there: its clock is 3.5 s behind this host's."),
        ({"descriptors": 256}, Severity.WARNING, "there: its workers may open only 256 files."),
        ({"processes": 100}, Severity.WARNING, "there: its user may have only 100 processes and threads."),
        ({"shared_memory_bytes": 5 << 20}, Severity.WARNING, "there: /dev/shm has only 5 MiB left"),
        ({"memory_files": False}, Severity.FAILURE, "there: its workers cannot create memory files"),
        ({"group_memory_bytes": 512 << 20}, Severity.WARNING, "there: its 4 workers share the 512 MiB of"),
        (
            {"spill_directory": "/scratch", "spill_bytes": 5 << 20},
            Severity.WARNING,
            "there: /scratch has only 5 MiB left",
        ),
        (
            {"spill_directory": "/scratch", "spill_bytes": 0, "spill_capacity_bytes": 0},
            Severity.WARNING,
            "there: objects that do not fit into memory cannot be written to /scratch.",
        ),
    ],
)
def test_each_problem_has_a_line_and_a_remedy(theirs: dict[str, Any], severity: Severity, text: str) -> None:
    (finding,) = findings(**theirs)
    assert finding.severity is severity and finding.text.startswith(text) and finding.remedy


def test_versions_of_the_scheduler() -> None:
    assert versions_of("scaler-client", "1.0.0", "1.4.2").severity is Severity.OK
    assert versions_of("scaler-client", "2.0.0", "1.4.2").severity is Severity.WARNING


def test_facts_are_those_of_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCALER_SPILL_DIRECTORY", str(tmp_path / "new"))
    found = host_facts(["cloudpickle", "no-such-package"], [])
    assert found.keys() == OURS.keys() and list(found["packages"]) == ["cloudpickle"]
    assert found["spill_directory"] == str(tmp_path / "new") and found["spill_bytes"] > 0
    monkeypatch.delenv("SCALER_SPILL_DIRECTORY")
    assert host_facts([], [])["spill_directory"] == default_directory()


def test_facts_come_from_source_text_that_any_version_of_python_can_run() -> None:
    names: dict[str, Any] = {}
    exec(inspect.getsource(host_facts_module), names)
    assert names["host_facts"]([], []).keys() == OURS.keys()
    assert "from scaler." not in inspect.getsource(host_facts_module), "workers need not have scaler-client"


def test_a_clock_differs_only_as_far_as_the_measurement_is_certain() -> None:
    assert HostAnswer({}, -0.5, 0.5).certain_offset_seconds() == 0.0
    assert HostAnswer({}, 4.0, 9.0).certain_offset_seconds() == 4.0
    assert HostAnswer({}, -9.0, -4.0).certain_offset_seconds() == -4.0
    assert HostAnswer({}, 4.0, 9.0).narrowed_by(HostAnswer({}, 4.5, 12.0)) == HostAnswer({}, 4.5, 9.0)


def test_the_clock_of_the_scheduler() -> None:
    assert list(of_clock("vm (scheduler)", certain_offset_seconds(-3.0, 3.0))) == []
    (found,) = of_clock("vm (scheduler)", certain_offset_seconds(2.5, 3.0))
    assert found.text == "vm (scheduler): its clock is 2.5 s ahead of this host's." and found.remedy


def test_the_disk_of_a_host_that_has_only_clients() -> None:
    assert list(of_client_host(OURS)) == []
    (full,) = of_client_host({**OURS, "spill_bytes": 5 << 20})
    assert full.text.startswith("here (this host): /var/tmp has only 5 MiB left")
    assert full.remedy == "Free some space there."
    (closed,) = of_client_host({**OURS, "spill_bytes": 0, "spill_capacity_bytes": 0})
    assert closed.remedy == "Make this directory writable."


def test_a_difference_of_cloudpickle_concerns_functions() -> None:
    (found,) = findings(packages={"numpy": "2.1.0", "cloudpickle": "2.0.0"})
    assert found.remedy.startswith("Functions may not travel")


def test_a_port_where_nothing_listens_cannot_be_reached() -> None:
    with socket.socket() as reserved, socket.create_server(("127.0.0.1", 0)) as listening:
        reserved.bind(("127.0.0.1", 0))
        found = host_facts([], [reserved.getsockname(), listening.getsockname()])
        assert found["unreachable"] == [(*reserved.getsockname(), "Connection refused")]


def test_a_host_without_an_object_store() -> None:
    (found,) = of_missing_stores(["vm-1", "vm-2"], {"vm-1"})
    assert found.severity is Severity.WARNING and found.text.startswith("vm-2: it has no object store") and found.remedy


def test_ways_between_hosts() -> None:
    names = {("10.0.0.1", 7000): "vm-1", ("10.0.0.2", 7001): "vm-2"}
    (all_open,) = of_ways([OURS, OURS], names)
    assert all_open == Finding(Severity.OK, "The object stores of 2 hosts can be reached from everywhere.")
    blocked = {**OURS, "host": "vm-2", "unreachable": [("10.0.0.1", 7000, "timed out")]}
    (found,) = of_ways([OURS, blocked], names)
    assert found.text == "vm-2 cannot connect to vm-1 at 10.0.0.1:7000: timed out." and found.remedy
    assert list(of_ways([OURS], {})) == []
