"""A scheduler that other machines can reach, protected by keys."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import zmq

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol.codec import decode, encode
from scaler_protocol.keys import peer_keys
from scaler_protocol.messages import Envelope, Goodbye, Refused, Role
from scaler_protocol.monitor.feed import Received
from scaler_protocol.monitor.subscription import RefusedError, Subscription
from scaler_protocol.transport.dealer_connection import DealerConnection
from tests.support.commands import run_command, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.short_clients import come_and_go
from tests.support.waiting import wait_until


def make_keys(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "scaler_protocol.keygen", str(folder)], check=True, capture_output=True)
    return folder


def copy_keys(keys: Path, folder: Path, *roles: str) -> Path:
    """All that is public, and what these roles need."""
    folder.mkdir()
    for path in (*keys.glob("*.pub"), *(keys / f"{role}.key" for role in roles)):
        shutil.copy2(path, folder)
    return folder


def replace_key(path: Path, folder: Path) -> None:
    """In one step: a scheduler that reads half a file does not find the key."""
    new = shutil.copy2(path, folder / ".new")
    os.replace(new, folder / path.name)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_keys(tmp_path_factory.mktemp("keys") / "of the cluster")


@pytest.fixture(scope="module")
def public_address(keys: Path) -> Iterator[str]:
    """Of a cluster whose scheduler and workers have the keys that they need, and no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCALER_KEYS", str(copy_keys(keys, keys.parent / "servers", "scheduler", "work")))
        with SchedulerClusterCombo(1, address="tcp://0.0.0.0:0", protected=False) as combo:
            yield combo.get_address().replace("0.0.0.0", "127.0.0.1")


@pytest.fixture
def submitter(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process may submit, and nothing else."""
    folder = copy_keys(keys, tmp_path / "submitter", "submit")
    monkeypatch.setenv("SCALER_KEYS", str(folder))
    return folder


def test_peers_with_the_keys_work_together(public_address: str, submitter: Path) -> None:
    with Client(public_address) as client:
        assert client.map(math.sqrt, [(4,), (9,)]) == [2.0, 3.0]
        assert client.submit(len, b"x" * 1_000_000).result() == 1_000_000


def test_clients_with_keys_that_leave_at_once_are_forgotten_at_once(public_address: str, submitter: Path) -> None:
    come_and_go(public_address, 30)
    with Client(public_address) as client:
        wait_until(lambda: len(client.cluster_info().snapshot.clients) == 1)


def test_a_key_that_only_submits_does_not_shut_down(public_address: str, submitter: Path) -> None:
    with Client(public_address) as client:
        with pytest.raises(ValueError, match="needs admin.key"):
            client.shutdown()
        with pytest.raises(ValueError, match="needs admin.key"):
            client.submit(shut_down_from_inside).result()
        assert client.submit(math.sqrt, 4).result() == 2.0


def shut_down_from_inside() -> None:
    Client().shutdown()


def test_a_key_that_only_observes_does_not_submit(public_address: str, submitter: Path, keys: Path) -> None:
    for half in ("key", "pub"):
        shutil.copy2(keys / f"observe.{half}", submitter / f"submit.{half}")
    with pytest.raises(DisconnectedError, match="may observe, not submit: it needs submit.key or admin.key"):
        Client(public_address).submit(math.sqrt, 4).result(timeout=60)


def test_a_worker_needs_a_key_that_works(public_address: str, submitter: Path) -> None:
    refused = run_command("scaler_cluster", public_address, "-n", 1)
    assert refused.returncode == 2 and "work.key: it is missing" in refused.stderr
    for half in ("key", "pub"):
        shutil.copy2(submitter / f"submit.{half}", submitter / f"work.{half}")
    refused = run_command("scaler_cluster", public_address, "-n", 1)
    assert refused.returncode != 0 and "may submit, not work" in refused.stderr + refused.stdout


def test_an_unknown_key_is_told_and_let_in_once_it_is_known(
    public_address: str, submitter: Path, keys: Path, tmp_path: Path
) -> None:
    own = make_keys(tmp_path / "own")
    for half in ("key", "pub"):
        shutil.copy2(own / f"submit.{half}", submitter)
    with pytest.raises(DisconnectedError, match="does not know this key.* as ROLE-NAME.pub"):
        Client(public_address).submit(math.sqrt, 4).result(timeout=60)
    known = shutil.copy2(own / "submit.pub", keys.parent / "servers" / "submit-alice.pub")
    try:
        with Client(public_address) as client:
            assert client.submit(math.sqrt, 4).result() == 2.0
    finally:
        Path(known).unlink()


def test_a_session_is_not_taken_over_with_another_key(
    public_address: str, submitter: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even by a peer that knows its id: each connection may name itself as it likes."""
    with Client(public_address) as client, zmq.Context() as context:
        assert client.submit(math.sqrt, 4).result() == 2.0
        monkeypatch.setenv("SCALER_KEYS", str(copy_keys(keys, tmp_path / "watcher", "observe")))
        thief = DealerConnection(context, public_address, client.identity, partial(peer_keys, role=Role.OBSERVE))
        try:
            wait_until(lambda: thief.connection_events() == ["connected"])
            assert thief.send(encode(Envelope(Goodbye(), sequence=2)))
            answer = decode(wait_until(thief.receive)).body
        finally:
            thief.close()
        assert isinstance(answer, Refused) and "began with another key" in answer.text
        assert client.submit(math.sqrt, 9).result() == 3.0


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
    done = subprocess.run(hidden, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--insecure" in done.stderr, done.stderr
    for directory, reason in ((None, "--insecure"), (tmp_path / "nothing here", "scheduler.key: it is missing")):
        if directory is not None:
            monkeypatch.setenv("SCALER_KEYS", str(directory))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
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
        for folder, sentence in ((others, "closes each connection: it has different keys"), (mixed, "does not accept")):
            monkeypatch.setenv("SCALER_KEYS", str(folder))
            assert sentence in refusal(monitor_address, 1)
        monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "missing"))
        assert "is missing. Copy it from the host" in refusal(monitor_address, 2)
        monkeypatch.delenv("SCALER_KEYS")
        assert "set SCALER_KEYS" in refusal(monitor_address, 1)


def test_a_monitor_with_keys_says_that_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)  # the servers' may be there
    monitor_address = free_address()
    with start_scheduler(free_address(), "--monitor-address", monitor_address) as scheduler:
        scheduler.remember_family()
        assert run_command("scaler_top", monitor_address, "--json", "--timeout", 15).returncode == 0
        monkeypatch.setenv("SCALER_KEYS", str(make_keys(tmp_path / "keys")))
        said = refusal(monitor_address, 1)
        assert "has no keys" in said or "or none" in said


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


def test_figures_for_prometheus_need_an_observers_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = copy_keys(make_keys(tmp_path / "keys"), tmp_path / "scheduler", "scheduler", "work", "submit")
    monkeypatch.setenv("SCALER_KEYS", str(keys))
    done = run_command(
        "scaler_scheduler", free_address(), "--monitor-address", free_address(), "--prometheus-address", "127.0.0.1:0"
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "--prometheus-address needs observe.key" in done.stderr


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


# ---- keys that end ---------------------------------------------------------------------------------------------------


def add_key(own: Path, server: Path, name: str) -> Path:
    """A key of that name, which the scheduler knows, for this process alone. Its public half there."""
    run_keygen(own, "--name", name)
    shutil.copy2(server / "scheduler.pub", own)
    return Path(shutil.copy2(own / f"submit-{name}.pub", server))


def run_keygen(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "scaler_protocol.keygen", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def server_keys(keys: Path) -> Path:
    return keys.parent / "servers"


def test_when_a_key_is_taken_away_its_client_is_told_and_its_tasks_end(
    public_address: str,
    submitter: Path,
    server_keys: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Client(public_address) as other:
        known = add_key(tmp_path / "alice", server_keys, "alice")
        monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "alice"))
        client = Client(public_address)
        started = tmp_path / "started"
        future = client.submit(linger, str(started))
        wait_until(started.exists)
        known.unlink()
        with pytest.raises(DisconnectedError, match="does not know this (peer's )?key.*, or it has expired"):
            future.result(timeout=60)  # it is told, or finds out when it connects again, if that comes first
        wait_until((tmp_path / "started.over").exists)
        assert other.submit(math.sqrt, 4).result() == 2.0
        with pytest.raises(DisconnectedError, match="does not know this key"):
            Client(public_address, timeout_seconds=1).submit(math.sqrt, 4).result(timeout=60)
        client.disconnect()


def linger(path: str) -> None:
    Path(path).touch()
    try:
        time.sleep(60)
    finally:
        Path(path + ".over").touch()


def test_when_a_key_expires_its_connection_ends(
    public_address: str, server_keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = add_key(tmp_path / "bob", server_keys, "bob")
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "bob"))
    with Client(public_address) as client:
        assert client.submit(math.sqrt, 4).result() == 2.0
        soon = datetime.now(UTC) + timedelta(seconds=2)
        known.write_bytes(known.read_bytes() + f"expires {soon:%Y-%m-%dT%H:%M:%SZ}\n".encode())
        with pytest.raises(DisconnectedError, match="or it has expired"):
            while True:
                client.submit(math.sqrt, 4).result()
    known.unlink()


def test_a_watcher_whose_key_is_taken_away_sees_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, monitor_address = make_keys(tmp_path / "keys"), free_address()
    (keys / "admin.key").unlink()
    monkeypatch.setenv("SCALER_KEYS", str(keys))
    with start_scheduler(free_address(), "--monitor-address", monitor_address), zmq.Context() as context:
        subscription = Subscription(context, monitor_address, keys=keys)
        try:
            assert isinstance(wait_until(lambda: heard_from(subscription)), Received)
            (keys / "observe.pub").unlink()
            wait_until(lambda: isinstance(heard_from(subscription), RefusedError))
        finally:
            subscription.close()


def test_keys_are_replaced_while_a_task_runs(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old ones stay valid until everybody has the new ones; nothing is run twice."""
    operator = copy_keys(keys, tmp_path / "operator", "scheduler", "submit", "work")
    servers = copy_keys(operator, tmp_path / "servers", "scheduler")
    workers = copy_keys(operator, tmp_path / "workers", "work")
    clients = copy_keys(operator, tmp_path / "clients", "submit")
    address = free_address()
    with (
        start_scheduler(address, "--monitor-address", free_address(), SCALER_KEYS=str(servers)) as scheduler,
        start_cluster(address, "-n", 1, SCALER_KEYS=str(workers)) as agent,
    ):
        monkeypatch.setenv("SCALER_KEYS", str(clients))
        with Client(address) as client:
            future = client.submit(count_and_wait, str(tmp_path / "runs"), str(tmp_path / "go on"))
            wait_until((tmp_path / "runs").exists)
            run_keygen(operator, "--rotate", "--keep-days", str(8 / 86_400))
            for path in sorted(operator.glob("*.pub")):
                replace_key(path, servers)
            replace_key(operator / "work.key", workers)
            replace_key(operator / "submit.key", clients)
            for holder in ("submit", "work"):
                scheduler.wait_for_output(f"A newer key has replaced that of {holder}")
            (tmp_path / "go on").touch()
            assert future.result(timeout=60) == "done"
            assert (tmp_path / "runs").read_text() == "x"
            assert client.submit(math.sqrt, 4).result() == 2.0
            assert "does not know" not in agent.output


def count_and_wait(runs: str, go_on: str) -> str:
    with open(runs, "a") as file:
        file.write("x")
    while not os.path.exists(go_on):
        time.sleep(0.01)
    return "done"
