"""What a client says about workers with other software than its own."""

from __future__ import annotations

import pytest

from scaler.core.effects import CompareSoftware
from scaler.core.software_differences import differences
from scaler.shell import software_check
from scaler.shell.software_check import compare_software
from scaler_protocol.host_software import machine_with
from scaler_protocol.messages import HostSoftware

WORKERS = HostSoftware("vm-3", "3.12.1", "x86_64-v3", ("cloudpickle 3.1.0", "numpy 1.26.4"))


def said(python: str = "3.12.1", machine: str = "x86_64-v3", **packages: str) -> list[str]:
    return list(differences(WORKERS, python, machine, packages))


def test_equal_software_is_not_worth_a_word() -> None:
    assert said(numpy="1.26.4", cloudpickle="3.1.0") == []


def test_neither_are_other_releases_with_fixes_alone() -> None:
    assert said(python="3.12.9", numpy="1.26.9") == []


def test_another_minor_version_of_python() -> None:
    assert said(python="3.13.0") == [
        "Workers on vm-3 have Python 3.12.1, but this program has 3.13.0: functions cannot be sent between them. Use "
        "the same minor version of Python on both."
    ]


def test_another_version_of_a_package() -> None:
    assert said(numpy="2.1.0") == [
        "Workers on vm-3 have numpy 1.26.4, but this program has 2.1.0: values of numpy may not be readable there. "
        "Install the same version on both, or give the client an environment."
    ]


def test_a_missing_package() -> None:
    assert said(polars="1.9.0") == [
        "Workers on vm-3 have no polars, but this program has imported it: tasks that use it fail there. Install it "
        "on vm-3 (python -m pip install polars==1.9.0), or give the client an environment."
    ]


@pytest.mark.parametrize("machine", ["x86_64", "x86_64-v2", "x86_64-v3"])
def test_processors_that_can_run_all_that_runs_here(machine: str) -> None:
    assert said(machine=machine) == []


@pytest.mark.parametrize("machine", ["x86_64-v4", "aarch64"])
def test_processors_that_can_not(machine: str) -> None:
    (text,) = said(machine=machine)
    assert "x86_64-v3" in text and machine in text


def test_levels_of_processors() -> None:
    second = ["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"]
    fourth = ["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"]
    assert machine_with("x86_64", []) == "x86_64"
    assert machine_with("x86_64", [*second, "other"]) == "x86_64-v2"
    assert machine_with("x86_64", [*second, *fourth]) == "x86_64-v2", "a level includes those below"


def test_hostile_texts_are_escaped_and_do_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(software_check, "_said", set())
    for number in range(300):
        workers = HostSoftware(f"vm-{number}\n[INFO] forged \x1b[2J", "2.7.1", "", ())
        compare_software(CompareSoftware(workers, True))
    assert len(caplog.messages) == 100
    assert caplog.messages[0].startswith("Workers on vm-0\\n[INFO] forged \\x1b[2J have Python 2.7.1")
