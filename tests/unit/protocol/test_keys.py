from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler_protocol import keys
from scaler_protocol.address import parse_address
from scaler_protocol.ids import new_session
from scaler_protocol.security import check_bind_allowed
from scaler_protocol.transport.doorkeeper import new_key_pair
from scaler_protocol.transport.sockets import DealerConnection, RouterSocket
from tests.unit.protocol.test_sockets import Closing, closing, context, eventually, readable

__all__ = ["closing", "context"]

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
    assert sorted(os.listdir(target)) == ["peer.key", "peer.pub", "scheduler.key", "scheduler.pub"]
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
    assert keys.peer_keys(parse_address("inproc://x")) is None
    served, used = keys.scheduler_keys(NETWORK), keys.peer_keys(NETWORK)
    assert served is not None and used is not None
    assert zmq.curve_public(served.secret) == used.scheduler_public and served.peer_public == used.public
    check_bind_allowed("tcp://0.0.0.0:1", insecure=False)


def test_without_a_directory_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    assert keys.scheduler_keys(NETWORK) is None and keys.peer_keys(NETWORK) is None


def test_a_wrong_directory_is_told(directory: Path) -> None:
    good = (directory / "peer.pub").read_text()
    (directory / "peer.pub").write_text("short")
    with pytest.raises(ValueError, match="peer.pub is not a key"):
        check_bind_allowed("tcp://0.0.0.0:1", insecure=False)
    with pytest.raises(ValueError, match="peer.pub is not a key"):
        keys.scheduler_keys(NETWORK)
    (directory / "peer.pub").write_text(good)
    (directory / "scheduler.pub").unlink()
    with pytest.raises(ValueError, match="scheduler.pub is missing"):
        keys.peer_keys(NETWORK)
    (directory / "peer.key").chmod(0o644)
    with pytest.raises(PermissionError, match="chmod 600"):
        keys.peer_keys(NETWORK)


def test_peers_with_the_keys_talk(context: Any, closing: Closing, directory: Path) -> None:
    router = closing(RouterSocket(context))
    bound = router.bind("tcp://127.0.0.1:0")
    session = new_session()
    dealer = closing(DealerConnection(context, bound, session))
    assert readable(dealer.monitor_fd) and eventually(dealer.connection_events) == ["connected"]
    assert dealer.send([b"secret words"])
    assert eventually(router.receive) == (session, [b"secret words"])
    assert router.send(session, [b"answer"]) == "sent" and eventually(dealer.receive) == [b"answer"]


def test_a_peer_without_the_keys_is_kept_out(
    context: Any, closing: Closing, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither without any, nor with a key of its own that the scheduler does not know."""
    router = closing(RouterSocket(context))
    bound = router.bind("tcp://127.0.0.1:0")
    monkeypatch.delenv("SCALER_KEYS")
    plain = closing(DealerConnection(context, bound, new_session()))
    assert "handshake_failed" in eventually(plain.connection_events)
    keys.generate(tmp_path / "others", new_key_pair)
    (tmp_path / "others" / "scheduler.pub").write_bytes((directory / "scheduler.pub").read_bytes())
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "others"))
    stranger = closing(DealerConnection(context, bound, new_session()))
    assert "handshake_failed" in eventually(stranger.connection_events)
    assert not plain.send([b"x"]) and not stranger.send([b"x"]) and router.receive() is None


def test_missing_keys_stop_a_peer_at_once(context: Any, directory: Path) -> None:
    (directory / "peer.key").unlink()
    with pytest.raises(ValueError, match="peer.key is missing"):
        DealerConnection(context, "tcp://127.0.0.1:9", new_session())
