"""Programs written for opengris-scaler: their parameters, modules and unlimited capabilities."""

from __future__ import annotations

import importlib
import os
import pickle
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


def test_their_addresses_are_accepted_as_addresses(combo: SchedulerClusterCombo) -> None:
    from scaler.config.types.address import AddressConfig, SocketType
    from scaler.config.types.object_storage_server import ObjectStorageAddressConfig
    from scaler.config.types.zmq import ZMQConfig, ZMQType

    address = ZMQConfig.from_string(combo.get_address())
    assert address.type is ZMQType.tcp and address.port == int(combo.get_address().rpartition(":")[2])
    with Client(address) as client:
        assert client.submit(increment, 1).result() == 2
    assert ZMQConfig(ZMQType.ipc, "/tmp/a").to_address() == "ipc:///tmp/a"
    assert AddressConfig(SocketType.tcp, "[::1]", 5) == AddressConfig.from_string("tcp://[::1]:5") == "tcp://[::1]:5"
    again = pickle.loads(pickle.dumps(address))
    assert (again, again.type, again.host, again.port) == (address, address.type, address.host, address.port)
    with pytest.warns(UserWarning, match="object_storage_address"):
        Client(address, object_storage_address=ObjectStorageAddressConfig.from_string("tcp://a:1")).disconnect()
    with pytest.raises(ValueError, match="not an address"):
        ZMQConfig.from_string("127.0.0.1:1")


def test_their_defaults_are_the_defaults_here() -> None:
    from scaler.config import defaults

    assert defaults.DEFAULT_HEARTBEAT_INTERVAL_SECONDS == 2 and defaults.DEFAULT_PER_WORKER_QUEUE_SIZE == 1000
    assert defaults.DEFAULT_PER_WORKER_TASK_QUEUE_SIZE == 1000 and defaults.DEFAULT_IO_THREADS == 1
    assert len(os.sched_getaffinity(0)) == defaults.DEFAULT_NUMBER_OF_WORKERS
    with pytest.raises(AttributeError, match="no such parameter here"):
        _ = defaults.DEFAULT_UNHEARD_OF
    with pytest.raises(AttributeError):
        _ = defaults.n_workers


@pytest.mark.parametrize(
    "name",
    [
        "common.logging.LoggingConfig",
        "common.security.SecurityConfig",
        "common.worker.WorkerConfig",
        "section.cluster.ClusterConfig",
        "section.object_storage_server.ObjectStorageServerConfig",
        "section.scheduler.SchedulerConfig",
        "section.top.TopConfig",
        "section.webui.WebUIConfig",
    ],
)
def test_their_objects_of_settings_are_accepted_with_a_warning(name: str) -> None:
    module, _, class_name = f"scaler.config.{name}".rpartition(".")
    with pytest.warns(UserWarning, match=f"{class_name}.* has no effect") as warned:
        settings = getattr(importlib.import_module(module), class_name)(level=1)
    assert settings.level == 1 and warned[0].filename == __file__


def test_parameters_of_the_cluster_alone() -> None:
    with pytest.warns(UserWarning, match="object_storage_address"):
        SchedulerClusterCombo(n_workers=1, object_storage_address="tcp://127.0.0.1:1").shutdown()


@pytest.mark.parametrize("amount", ["-2", "-1.5", "--1"])
def test_other_negative_amounts_are_refused(amount: str) -> None:
    command = [sys.executable, "-m", "scaler_worker.cli", "--per-worker-capabilities", f"gpu={amount}", "tcp://[::1]:1"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 2 and "is not a capability" in finished.stderr
