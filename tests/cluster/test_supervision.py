"""Processes of a cluster that a script started: those that are killed, or break, are started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from scaler import Client, Cluster, SchedulerClusterCombo
from scaler_protocol.command.turn_guard import BROKEN_CODE
from tests.support.commands import start_scheduler
from tests.support.functions import sleep_and_return
from tests.support.ports import free_address
from tests.support.sabotage import write_sabotage
from tests.support.waiting import wait_until

AGENT_IS_BROKEN = """
if module == "scaler_worker.cli" {condition}:
    from scaler_worker.core.slots import Slots
    def fail(self, now):
        raise ValueError("a defect")
    Slots.start_missing = fail
"""

SCHEDULER_IS_BROKEN = """
if module == "scaler_scheduler.cli" and first_time():
    from scaler_scheduler.core import tick
    def fail(state, now):
        raise ValueError("a defect")
    tick.on_deadline = fail
"""


def agent_pid(combo: SchedulerClusterCombo) -> int:
    assert combo._cluster is not None and combo._cluster.pid is not None
    return combo._cluster.pid


def test_a_killed_agent_is_replaced_and_nothing_is_lost() -> None:
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        for _ in range(3):
            before = agent_pid(combo)
            futures = [client.submit(sleep_and_return, 0.05, number) for number in range(40)]
            wait_until(lambda futures=futures: any(each.done() for each in futures))
            os.kill(before, signal.SIGKILL)
            assert [each.result() for each in futures] == list(range(40))
            assert agent_pid(combo) != before


def test_a_killed_scheduler_is_replaced_at_its_address_and_nothing_is_lost() -> None:
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        for _ in range(3):
            before = combo._scheduler.pid
            assert before is not None
            futures = [client.submit(sleep_and_return, 0.05, number) for number in range(40)]
            wait_until(lambda futures=futures: any(each.done() for each in futures))
            os.kill(before, signal.SIGKILL)
            assert [each.result() for each in futures] == list(range(40))
            assert combo._scheduler.pid != before


def test_an_agent_that_breaks_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sabotage(tmp_path / "path", AGENT_IS_BROKEN.format(condition="and first_time()"))
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        assert client.map(len, ["ab"] * 10) == [2] * 10
    assert (tmp_path / "path" / "mark").exists()


def test_a_scheduler_that_breaks_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_sabotage(tmp_path / "path", SCHEDULER_IS_BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        assert client.map(len, ["ab"] * 10) == [2] * 10
        wait_until(lambda: f"scaler_scheduler ended with code {BROKEN_CODE}" in caplog.text)
        assert client.map(len, ["ab"] * 10) == [2] * 10


def test_an_agent_that_always_breaks_is_given_up_with_a_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_sabotage(tmp_path / "path", AGENT_IS_BROKEN.format(condition=""))
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    address, log = free_address(), tmp_path / "log"
    with start_scheduler(address):
        cluster = Cluster(address, 2, logging_paths=(str(log),))
        cluster.start(wait=False)
        cluster.join(60)
    assert cluster.exit_code == BROKEN_CODE
    assert "it will not be restarted" in caplog.text
    text = log.read_text()
    assert "ValueError: a defect" in text and "consecutive turns failed, so this process exits with code 70" in text


def test_what_was_ended_on_purpose_is_not_started_again() -> None:
    with SchedulerClusterCombo(1, protected=False) as combo:
        assert combo._cluster is not None
        with Client(combo.get_address()) as client:
            assert client.submit(len, "ab").result() == 2  # the workers are there
            client.shutdown()
        combo._cluster.join(30)
        combo._scheduler.join(30)
        assert combo._cluster.exit_code == 0
    assert not [each for each in psutil.Process().children(recursive=True) if runs_scaler(each)]


def runs_scaler(process: psutil.Process) -> bool:
    """False for an orphan that ended and was not reaped yet."""
    try:
        return "scaler" in " ".join(process.cmdline())
    except psutil.Error:
        return False
