"""Programs written for opengris-scaler: their parameters, modules and unlimited capabilities."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

import scaler
from scaler import Client, SchedulerClusterCombo
from tests.support.functions import increment


def test_a_program_with_their_parameters() -> None:
    with pytest.warns(UserWarning) as warned:
        combo = SchedulerClusterCombo(
            n_workers=1,
            per_worker_task_queue_size=10,
            object_storage_address="tcp://127.0.0.1:1",
            scaler_policy="simple",
            security_config=object(),
            worker_manager_id="one",
            per_worker_capabilities={"gpu": -1, "linux": 1},
        )
        with combo, Client(combo.get_address(), object_storage_address="tcp://127.0.0.1:1") as client:
            assert client.submit_verbose(increment, (1,), capabilities={"gpu": -1}, reserialize=True).result() == 2
            assert client.map(increment, [1, 2], capabilities={"gpu": 1000}, reserialize=True) == [2, 3]
            assert client.starmap(pow, [(2, 3)], reserialize=True) == [8]
            assert client.get({"a": 1, "b": (increment, "a")}, ["b"], reserialize=True) == {"b": 2}
    texts = [str(each.message) for each in warned]
    assert len([text for text in texts if "has no effect" in text]) == 5
    assert any(text.startswith("Client(object_storage_address=...) has no effect: ") for text in texts)


def test_a_task_that_needs_any_amount_of_what_is_not_there(client: Client) -> None:
    future = client.submit_verbose(increment, (1,), capabilities={"unheard-of": -1})
    assert not future.done() and future.cancel()


def test_nothing_is_said_about_parameters_that_are_not_passed(combo: SchedulerClusterCombo) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client(combo.get_address()).disconnect()


def test_their_modules() -> None:
    from scaler.about import __version__
    from scaler.client.serializer.default import DefaultSerializer
    from scaler.client.serializer.mixins import Serializer

    assert (__version__, DefaultSerializer, Serializer) == (
        scaler.__version__,
        scaler.DefaultSerializer,
        scaler.Serializer,
    )


@pytest.mark.parametrize("amount", ["-2", "-1.5", "--1"])
def test_other_negative_amounts_are_refused(amount: str) -> None:
    command = [sys.executable, "-m", "scaler_worker.cli", "--per-worker-capabilities", f"gpu={amount}", "tcp://[::1]:1"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 2 and "is not a capability" in finished.stderr
