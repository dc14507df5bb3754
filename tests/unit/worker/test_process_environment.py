"""How a worker process enters its environment."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol.shipping.environments import Environment, current_environment, set_current_environment
from scaler_worker.package_cache import fill, path_of
from scaler_worker.worker_process.errors import EnvironmentUnusableError
from scaler_worker.worker_process.process_environment import ProcessEnvironment


@pytest.fixture(autouse=True)
def as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a process changes for ever is undone for the next test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["/program", "/usr/lib/python3", "/usr/lib/python3/site-packages", "/editable"])
    for name in ("PATH", "PYTHONPATH", "SHADE"):
        monkeypatch.setenv(name, f"/{name}")
    before = os.getcwd()
    yield
    os.chdir(before)
    set_current_environment("")


def test_packages_come_before_those_of_the_host_and_behind_the_standard_library() -> None:
    environment = Environment(["painter"], {"SHADE": "dark"})
    fill(environment.requirements, lambda folder: Path(folder, "painter.py").touch())  # type: ignore[arg-type]
    ProcessEnvironment("w").enter(environment.to_text())
    folder = path_of(environment.requirements)
    assert sys.path == ["/program", "/usr/lib/python3", folder, "/usr/lib/python3/site-packages", "/editable"]
    assert (os.environ["PYTHONPATH"], os.environ["PATH"]) == (f"{folder}:/PYTHONPATH", f"{folder}/bin:/PATH")
    assert os.environ["SHADE"] == "dark" and current_environment() == environment.to_text()


def test_child_processes_find_packages_and_what_the_variables_of_the_environment_name() -> None:
    environment = Environment(["painter"], {"PATH": "/own/bin", "PYTHONPATH": "/own"})
    fill(environment.requirements, lambda folder: None)
    ProcessEnvironment("w").enter(environment.to_text())
    folder = path_of(environment.requirements)
    assert (os.environ["PYTHONPATH"], os.environ["PATH"]) == (f"{folder}:/own", f"{folder}/bin:/own/bin")


def test_packages_that_are_gone_are_a_sentence() -> None:
    with pytest.raises(EnvironmentUnusableError, match="they were removed. Submit it again."):
        ProcessEnvironment("w").enter(Environment(["painter"]).to_text())


def test_a_process_that_has_run_tasks_enters_no_other_environment(tmp_path: Path) -> None:
    process = ProcessEnvironment("w")
    with pytest.raises(EnvironmentUnusableError, match="Create it on each host"):
        process.enter(Environment(working_directory=str(tmp_path / "later")).to_text())
    (tmp_path / "later").mkdir()
    text = Environment(working_directory=str(tmp_path / "later")).to_text()
    process.enter(text)
    process.close()
    process.enter(text)
    with pytest.raises(EnvironmentUnusableError, match="its process has run other tasks"):
        process.enter(Environment(variables={"SHADE": "light"}).to_text())
    assert os.environ["SHADE"] == "/SHADE"
