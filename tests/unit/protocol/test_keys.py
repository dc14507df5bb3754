from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.utils import z85

from scaler_protocol import keys
from scaler_protocol.address import parse_address
from scaler_protocol.ids import new_session
from scaler_protocol.messages import Role
from scaler_protocol.security import check_bind_allowed
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_protocol.transport.doorkeeper import Doorkeeper, new_key_pair
from scaler_protocol.transport.router_socket import RouterSocket
from tests.support.waiting import wait_until
from tests.unit.protocol.test_sockets import Closing, readable

NETWORK = parse_address("tcp://0.0.0.0:1")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    keys.generate(tmp_path / "keys", new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    yield tmp_path / "keys"


def keygen(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scaler_protocol.keygen", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_command_writes_private_files_once(tmp_path: Path) -> None:
    target = tmp_path / "new" / "keys"
    first = keygen(str(target))
    assert first.returncode == 0 and f"SCALER_KEYS={target}" in first.stdout
    names = ("admin", "observe", "scheduler", "submit", "work")
    assert sorted(os.listdir(target)) == [f"{name}.{half}" for name in names for half in ("key", "pub")]
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o600}
    before = {path: path.read_bytes() for path in target.iterdir()}
    again = keygen(str(target))
    assert again.returncode == 2 and "exists already" in again.stderr and again.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in target.iterdir()} == before


def test_command_tells_bad_input_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for arguments in ([], [str(tmp_path / "file" / "below")], ["a", "b"]):
        done = keygen(*arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


def test_keys_protect_the_network_and_nothing_else(directory: Path) -> None:
    assert keys.scheduler_keys(parse_address("ipc:///tmp/x")) is None
    assert keys.client_keys(parse_address("inproc://x")) is None
    served, used = keys.scheduler_keys(NETWORK), keys.client_keys(NETWORK)
    assert served is not None and used is not None
    assert zmq.curve_public(served.secret) == used.server_public and zmq.curve_public(used.secret) == used.public
    check_bind_allowed("tcp://0.0.0.0:1", insecure=False)


def test_without_a_directory_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    assert keys.scheduler_keys(NETWORK) is None and keys.client_keys(NETWORK) is None


def test_a_wrong_directory_is_told(directory: Path) -> None:
    good = (directory / "submit.pub").read_text()
    (directory / "submit.pub").write_text("short")
    with pytest.raises(ValueError, match="submit.pub is not a key"):
        check_bind_allowed("tcp://0.0.0.0:1", insecure=False)
    (directory / "submit.pub").write_text("~" * 40)
    with pytest.raises(ValueError, match="submit.pub is not a key"):
        check_bind_allowed("tcp://0.0.0.0:1", insecure=False)
    (directory / "submit.pub").write_text(good)
    (directory / "scheduler.pub").unlink()
    with pytest.raises(ValueError, match="scheduler.pub is missing"):
        keys.client_keys(NETWORK)
    (directory / "admin.key").chmod(0o644)
    with pytest.raises(PermissionError, match="chmod 600"):
        keys.client_keys(NETWORK)
    for path in directory.glob("*.pub"):
        path.unlink()
    with pytest.raises(ValueError, match="nobody could connect"):
        keys.scheduler_keys(NETWORK)


def test_a_peer_uses_the_key_of_its_role_or_that_of_an_administrator(directory: Path) -> None:
    def public(name: str) -> bytes:
        return (directory / f"{name}.pub").read_bytes().strip()

    assert used_by(keys.client_keys) == used_by(keys.worker_keys) == public("admin")
    (directory / "admin.key").unlink()
    assert used_by(keys.client_keys) == public("submit")
    assert used_by(keys.worker_keys) == used_by(keys.store_peer_keys) == public("work")
    (directory / "work.key").unlink()
    assert used_by(keys.store_peer_keys) == public("submit")
    with pytest.raises(ValueError, match="work.key is missing"):
        keys.worker_keys(NETWORK)
    with pytest.raises(ValueError, match="work.key is missing"):
        keys.store_keys(NETWORK)


def used_by(choose: Any) -> bytes:
    chosen = choose(NETWORK)
    assert zmq.curve_public(chosen.secret) == chosen.public
    return bytes(chosen.public)


def test_who_is_let_in_where(directory: Path) -> None:
    """By the scheduler everybody, to be told in words what is wrong."""
    stranger, _ = new_key_pair()
    publics = {path.stem: path.read_bytes().strip() for path in directory.glob("*.pub")} | {"stranger": stranger}
    for choose, expected in (
        (keys.scheduler_keys, {*publics}),
        (keys.monitor_keys, {"observe", "admin"}),
        (keys.store_keys, {"submit", "work", "admin"}),
    ):
        served = choose(NETWORK)
        assert served is not None
        assert {name for name, public in publics.items() if served.user_of(public) is not None} == expected


def test_keys_are_added_and_taken_away_while_a_scheduler_runs(directory: Path) -> None:
    served = keys.scheduler_keys(NETWORK)
    assert served is not None
    public, _ = new_key_pair()

    def role() -> Role | None:
        user = served.user_of(public)
        assert user is not None and public in user
        return keys.role_of_user(user)

    assert role() is None
    (directory / "submit-alice.pub").write_bytes(public)
    (directory / "submit-alice.pub").chmod(0o622)
    assert role() is None, "anybody could have written it"
    (directory / "submit-alice.pub").chmod(0o644)
    assert role() == Role.SUBMIT
    (directory / "submit-broken.pub").write_bytes(b"broken")
    (directory / "submit-folder.pub").mkdir()
    os.mkfifo(directory / "submit-pipe.pub", 0o600)
    assert role() == Role.SUBMIT
    (directory / "submit-alice.pub").unlink()
    assert role() is None


def test_peers_with_the_keys_talk(context: Any, closing: Closing, directory: Path) -> None:
    router = closing(RouterSocket(context))
    bound = router.bind("tcp://127.0.0.1:0")
    session = new_session()
    dealer = closing(DealerConnection(context, bound, session))
    assert readable(dealer.monitor_fd) and wait_until(dealer.connection_events) == ["connected"]
    assert dealer.send([b"secret words"])
    assert wait_until(router.receive) == (session, [b"secret words"])
    assert router.send(session, [b"answer"]) == "sent" and wait_until(dealer.receive) == [b"answer"]


def test_messages_come_with_the_user_of_their_connection(context: Any, closing: Closing, directory: Path) -> None:
    router = closing(RouterSocket(context))
    bound = router.bind("tcp://127.0.0.1:0")
    (directory / "admin.key").unlink()
    for choose, role in ((keys.client_keys, Role.SUBMIT), (keys.worker_keys, Role.WORK)):
        session = new_session()
        dealer = closing(DealerConnection(context, bound, session, choose))
        assert wait_until(dealer.connection_events) == ["connected"] and dealer.send([b"one", b"two"])
        [(peer, frames, user)] = wait_until(lambda: router.receive_many(10))
        assert (peer, frames, keys.role_of_user(user)) == (session, [b"one", b"two"], role)
        assert user.endswith(used_by(choose))


def test_a_peer_without_keys_is_kept_out(
    context: Any, closing: Closing, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = closing(RouterSocket(context))
    bound = router.bind("tcp://127.0.0.1:0")
    monkeypatch.delenv("SCALER_KEYS")
    plain = closing(DealerConnection(context, bound, new_session()))
    assert "handshake_failed" in wait_until(plain.connection_events)
    assert not plain.send([b"x"]) and router.receive() is None


def test_a_store_keeps_out_whose_key_it_does_not_know(
    context: Any, closing: Closing, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = closing(RouterSocket(context, keys.store_keys))
    bound = router.bind("tcp://127.0.0.1:0")
    keys.generate(tmp_path / "others", new_key_pair)
    (tmp_path / "others" / "work.pub").write_bytes((directory / "work.pub").read_bytes())
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "others"))
    stranger = closing(DealerConnection(context, bound, new_session(), keys.store_peer_keys))
    assert "handshake_failed" in wait_until(stranger.connection_events)
    assert not stranger.send([b"x"]) and router.receive() is None


def test_missing_keys_stop_a_peer_at_once(context: Any, directory: Path) -> None:
    (directory / "admin.key").unlink()
    (directory / "submit.key").unlink()
    with pytest.raises(ValueError, match="submit.key is missing"):
        DealerConnection(context, "tcp://127.0.0.1:9", new_session())


def test_while_keys_cannot_be_read_peers_are_to_try_again(context: Any, directory: Path) -> None:
    """A 400 would silence them for ever, and so would a Hello that is refused."""
    served = keys.scheduler_keys(NETWORK)
    assert served is not None
    doorkeeper = Doorkeeper(context, served.user_of)
    asker = context.socket(zmq.REQ)
    asker.connect("inproc://zeromq.zap.01")
    away = directory.with_name("away")
    public = z85.decode((directory / "submit.pub").read_bytes().strip())
    try:
        for move, status in ((lambda: directory.rename(away), b"300"), (lambda: away.rename(directory), b"200")):
            move()
            asker.send_multipart([b"1.0", b"1", b"scaler", b"", b"", b"CURVE", public])
            assert asker.poll(10_000) and asker.recv_multipart()[2] == status
    finally:
        asker.close(0)
        doorkeeper.close()
