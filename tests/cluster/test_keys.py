"""A scheduler that other machines can reach, protected by keys."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol.monitor.feed import Received
from scaler_protocol.monitor.subscription import RefusedError, Subscription
from tests.support.commands import free_address, run_command, start_scheduler
from tests.support.waiting import wait_until


def make_keys(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "scaler_protocol.keygen", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def public_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCALER_KEYS", str(make_keys(tmp_path_factory.mktemp("keys") / "of the cluster")))
        with SchedulerClusterCombo(1, address="tcp://0.0.0.0:0") as combo:
            yield combo.get_address().replace("0.0.0.0", "127.0.0.1")


def test_peers_with_the_keys_work_together(public_address: str) -> None:
    with Client(public_address) as client:
        assert client.map(math.sqrt, [(4,), (9,)]) == [2.0, 3.0]


def test_a_client_with_other_keys_is_kept_out(
    public_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALER_KEYS", str(make_keys(tmp_path / "others")))
    with pytest.raises(DisconnectedError):
        Client(public_address, timeout_seconds=2).submit(math.sqrt, 4).result()
    monkeypatch.delenv("SCALER_KEYS")
    with pytest.raises(DisconnectedError):
        Client(public_address, timeout_seconds=2).submit(math.sqrt, 4).result()


def test_a_public_address_without_keys_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scaler_scheduler.cli", "tcp://0.0.0.0:0"]
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    hidden = [*command[:3], "tcp://127.0.0.1:0", "--monitor-address", "tcp://0.0.0.0:0"]
    done = subprocess.run(hidden, capture_output=True, text=True, timeout=15)
    assert done.returncode == 2 and "--insecure" in done.stderr, done.stderr
    for directory, reason in ((None, "--insecure"), (tmp_path / "nothing here", "scheduler.key is missing")):
        if directory is not None:
            monkeypatch.setenv("SCALER_KEYS", str(directory))
        done = subprocess.run(command, capture_output=True, text=True, timeout=15)
        assert done.returncode == 2 and reason in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_monitors_need_the_keys_too_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_KEYS", str(make_keys(tmp_path / "keys")))
    monitor_address = free_address()
    with start_scheduler(free_address(), "--monitor-address", monitor_address) as scheduler:
        scheduler.remember_family()
        heard = run_command("scaler_top", monitor_address, "--json", "--timeout", 15)
        assert heard.returncode == 0, heard.stderr

        mixed, others = make_keys(tmp_path / "mixed"), make_keys(tmp_path / "others")
        (mixed / "scheduler.pub").write_bytes((tmp_path / "keys" / "scheduler.pub").read_bytes())
        for folder, sentence in ((others, "breaks each connection off: it has other keys"), (mixed, "does not accept")):
            monkeypatch.setenv("SCALER_KEYS", str(folder))
            assert sentence in refusal(monitor_address, 1)
        monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "missing"))
        assert "is missing: make keys with scaler_keygen" in refusal(monitor_address, 2)
        monkeypatch.delenv("SCALER_KEYS")
        assert "name their folder with SCALER_KEYS" in refusal(monitor_address, 1)


def test_a_monitor_with_keys_says_that_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor_address = free_address()
    with start_scheduler(free_address(), "--monitor-address", monitor_address) as scheduler:
        scheduler.remember_family()
        assert run_command("scaler_top", monitor_address, "--json", "--timeout", 15).returncode == 0
        monkeypatch.setenv("SCALER_KEYS", str(make_keys(tmp_path / "keys")))
        assert "has no keys" in refusal(monitor_address, 1) or "or none" in refusal(monitor_address, 1)


def test_a_monitor_gets_in_once_the_keys_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, mixed = make_keys(tmp_path / "keys"), make_keys(tmp_path / "mixed")
    (mixed / "scheduler.pub").write_bytes((keys / "scheduler.pub").read_bytes())
    (mixed / "scheduler.key").write_bytes((keys / "scheduler.key").read_bytes())
    monitor_address = free_address()
    with zmq.Context() as context:
        subscription = Subscription(context, monitor_address, keys=keys)
        try:
            for folder, expected in ((mixed, RefusedError), (keys, Received)):
                monkeypatch.setenv("SCALER_KEYS", str(folder))
                with start_scheduler(free_address(), "--monitor-address", monitor_address):
                    assert isinstance(wait_until(lambda: heard_from(subscription)), expected)
        finally:
            subscription.close()


def test_figures_for_prometheus_need_a_peers_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = make_keys(tmp_path / "keys")
    (keys / "peer.key").unlink()
    monkeypatch.setenv("SCALER_KEYS", str(keys))
    done = run_command(
        "scaler_scheduler", free_address(), "--monitor-address", free_address(), "--prometheus-address", "127.0.0.1:0"
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "--prometheus-address needs a peer's keys" in done.stderr


def refusal(monitor_address: str, returncode: int) -> str:
    """The one line that scaler_top ends with."""
    done = run_command("scaler_top", monitor_address, "--json", "--timeout", 10)
    assert done.returncode == returncode and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def heard_from(subscription: Subscription) -> Received | RefusedError | None:
    try:
        return subscription.receive()
    except RefusedError as error:
        return error
