"""Differences between the software of a client and of its workers are reported when it connects."""

from __future__ import annotations

import logging
import sys
import types

import pytest

from scaler import Client, Environment, SchedulerClusterCombo
from tests.support.waiting import wait_until


def test_a_package_that_workers_have_in_another_version(
    combo: SchedulerClusterCombo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__="99.1.0"))
    with caplog.at_level(logging.WARNING, "scaler"), Client(combo.get_address()) as client:
        wait_until(lambda: "torch" in caplog.text)
        assert client.submit(pow, 2, 3).result() == 8
    caplog.clear()
    with caplog.at_level(logging.WARNING, "scaler"), Client(combo.get_address()) as client:
        assert client.submit(pow, 2, 3).result() == 8
    assert "torch" not in caplog.text, "it is said once"


def test_packages_of_workers_do_not_matter_to_tasks_with_an_environment(
    combo: SchedulerClusterCombo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "polars", types.SimpleNamespace(__version__="99.2.0"))
    environment = Environment(variables={"MODE": "test"})
    with caplog.at_level(logging.WARNING, "scaler"), Client(combo.get_address(), environment=environment) as client:
        assert client.submit(pow, 2, 3).result() == 8
    assert "polars" not in caplog.text
