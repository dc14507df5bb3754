from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from zmq.utils import z85

from scaler_protocol import keys
from scaler_protocol.address import parse_address
from scaler_protocol.ids import new_session
from scaler_protocol.key_files import generate, rotate
from scaler_protocol.messages import Role
from scaler_protocol.security import check_bind_allowed
from scaler_protocol.transport.curve_authentication import CurveAuthenticator, new_key_pair
from scaler_protocol.transport.dealer_connection import DealerConnection
from tests.support.routers import OpenRouter
from tests.support.waiting import wait_until
from tests.unit.protocol.test_sockets import Closing, readable

NETWORK = parse_address("tcp://0.0.0.0:1")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    generate(tmp_path / "keys", new_key_pair)
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
    assert again.returncode == 2 and "already exists" in again.stderr and again.stderr.count("\n") == 1
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
    assert zmq.curve_public(served.secret) == used.server_public
    check_bind_allowed("tcp://0.0.0.0:1", insecure=False)


def test_without_a_directory_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    assert keys.scheduler_keys(NETWORK) is None and keys.client_keys(NETWORK) is None


def test_a_wrong_directory_is_told(directory: Path) -> None:
    good = (directory / "submit.pub").read_text()
    (directory / "submit.pub").write_text("short")
    with pytest.raises(ValueError, match="submit.pub: it is not a key"):
        check_bind_allowed("tcp://0.0.0.0:1", insecure=False)
    for text in ("~" * 40, "#" * 40, good[:35] + "%nSc1", good[:35], good[:40] + "0"):
        (directory / "submit.pub").write_text(text)
        with pytest.raises(ValueError, match="submit.pub: it is not a key"):
            check_bind_allowed("tcp://0.0.0.0:1", insecure=False)
    (directory / "submit.pub").write_text("%nSc0" * 8)  # as much as it can say
    check_bind_allowed("tcp://0.0.0.0:1", insecure=False)
    (directory / "submit.pub").write_text(good)
    (directory / "scheduler.pub").unlink()
    with pytest.raises(ValueError, match="scheduler.pub: it is missing"):
        keys.client_keys(NETWORK)
    (directory / "admin.key").chmod(0o644)
    with pytest.raises(PermissionError, match="chmod 600"):
        keys.client_keys(NETWORK)
    for path in directory.glob("*.pub"):
        path.unlink()
    with pytest.raises(ValueError, match="no peer could connect"):
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
    with pytest.raises(ValueError, match="work.key: it is missing"):
        keys.worker_keys(NETWORK)
    with pytest.raises(ValueError, match="work.key: it is missing"):
        keys.store_keys(NETWORK)


def used_by(choose: Any) -> bytes:
    return bytes(zmq.curve_public(choose(NETWORK).secret))


def test_who_is_let_in_where(directory: Path) -> None:
    stranger, _ = new_key_pair()
    publics = {path.stem: path.read_bytes().strip() for path in directory.glob("*.pub")} | {"stranger": stranger}
    for choose, expected in (
        (keys.scheduler_keys, {"observe", "submit", "work", "admin"}),
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

    def holder() -> str:
        user = served.user_of(public)
        assert user is None or keys.key_of_user(user) == public
        return keys.holder_of_user(user) if user is not None else ""

    def is_listed() -> bool:
        return any(public in user for user in served.known.users())

    assert holder() == ""
    (directory / "submit-alice.pub").write_bytes(public)
    (directory / "submit-alice.pub").chmod(0o622)
    with pytest.raises(AssertionError):  # anybody could have written it
        wait_until(holder, 0.5)
    (directory / "submit-alice.pub").chmod(0o644)
    assert wait_until(holder) == "submit-alice" and is_listed()
    (directory / "submit-broken.pub").write_bytes(b"broken")
    (directory / "submit-folder.pub").mkdir()
    (directory / "submit-a:b.pub").write_bytes(b"broken")
    os.mkfifo(directory / "submit-pipe.pub", 0o600)
    assert holder() == "submit-alice"
    (directory / "submit-alice.pub").unlink()
    wait_until(lambda: holder() == "" and not is_listed())


# ---- the end of a key ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["expires 2001-01-31", "expires 2001-01-31T12:00:00Z"])
def test_an_expired_key_is_not_let_in(directory: Path, line: str) -> None:
    served = keys.scheduler_keys(NETWORK)
    assert served is not None
    public = (directory / "submit.pub").read_bytes().strip()
    assert served.user_of(public) is not None
    (directory / "submit.pub").write_bytes(public + f"\n{line}\n".encode())
    wait_until(lambda: served.user_of(public) is None)
    assert not any(public in user for user in served.known.users())
    (directory / "submit.pub").write_bytes(public + b"\nexpires 2999-12-31")
    wait_until(lambda: served.user_of(public) is not None)


def test_a_key_is_valid_to_the_end_of_its_last_day(directory: Path) -> None:
    public = (directory / "submit.pub").read_bytes()
    today = datetime.now(UTC).date()
    for day, is_valid in ((today, True), (today - timedelta(days=1), False)):
        (directory / "submit.pub").write_bytes(public + f"expires {day}".encode())
        [found] = [each for each in keys.public_keys(directory) if each.role == Role.SUBMIT]
        assert (time.time() < found.expires) is is_valid


def test_a_key_may_be_valid_to_the_last_day_there_is(directory: Path) -> None:
    path = directory / "submit.pub"
    assert time.time() < keys.parse_public_key(path, path.read_bytes() + b"expires 9999-12-31")[1] < float("inf")


@pytest.mark.parametrize("line", [b"expire 2027-01-31", b"expires tomorrow", b"expires 2027-13-31", b"more\nlines"])
def test_a_wrong_second_line_is_told(directory: Path, line: bytes) -> None:
    public = (directory / "submit.pub").read_bytes()
    (directory / "submit.pub").write_bytes(public + line)
    with pytest.raises(ValueError, match=r"submit\.pub: "):
        check_bind_allowed("tcp://0.0.0.0:1", insecure=False)


def test_while_a_directory_cannot_be_read_no_key_ends(directory: Path) -> None:
    served = keys.scheduler_keys(NETWORK)
    assert served is not None
    away = directory.with_name("away")
    directory.rename(away)
    with pytest.raises(OSError):
        served.known.users()
    away.rename(directory)
    assert len(served.known.users()) == 4


def test_a_file_system_that_fails_is_not_asked_at_each_handshake(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def failing(*arguments: Any) -> Any:
        reads.append(arguments)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(keys, "public_keys", failing)
    monkeypatch.setattr(keys, "_MISSED_SECONDS", 60.0)
    known = keys.KnownKeys(directory)
    for _ in range(100):
        with pytest.raises(OSError, match="Input/output error"):
            known.find(b"any")
    assert len(reads) == 1


# ---- names and new keys ----------------------------------------------------------------------------------------------


def test_keys_that_are_not_known_cost_little_however_many_files_there_are(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone can show them, and each might have been written just now."""
    clock = SimpleNamespace(now=100.0, reads=0)
    read_all = keys.public_keys

    def slow(*arguments: Any) -> Any:
        clock.now, clock.reads = clock.now + 0.009, clock.reads + 1
        return read_all(*arguments)

    monkeypatch.setattr(keys, "time", SimpleNamespace(monotonic=lambda: clock.now, time=time.time))
    monkeypatch.setattr(keys, "public_keys", slow)
    known = keys.KnownKeys(directory)
    for _ in range(800):
        assert known.find(b"not known") is None
        clock.now += 0.001
    assert clock.reads == 1


def test_keys_of_a_name(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = keygen(str(tmp_path / "hers"), "--name", "alice", "--expires-days", "1")
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "hers")) == ["submit-alice.key", "submit-alice.pub"]
    shutil.copy2(tmp_path / "hers" / "submit-alice.pub", directory)
    served = keys.scheduler_keys(NETWORK)
    assert served is not None
    shutil.copy2(directory / "scheduler.pub", tmp_path / "hers")
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "hers"))
    user = served.user_of(used_by(keys.client_keys))
    assert user is not None and keys.holder_of_user(user) == "submit-alice"
    [hers] = [each for each in keys.public_keys(directory) if each.name == "alice"]
    assert 0 < hers.expires - time.time() <= 86_400


@pytest.mark.parametrize(
    "arguments", [("--name", "a/b"), ("--name", "a:b"), ("--roles", "king"), ("--name", "a", "--roles", "scheduler")]
)
def test_names_that_cannot_be(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = keygen(str(tmp_path), *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not os.listdir(tmp_path), done.stderr


def test_new_keys_take_the_place_of_old_ones(directory: Path) -> None:
    served = keys.scheduler_keys(NETWORK)
    assert served is not None
    generate(directory, new_key_pair, ["submit-alice"])
    before = {each.key: each for each in keys.public_keys(directory)}
    unchanged = [(directory / name).read_bytes() for name in ("scheduler.key", "scheduler.pub")]
    done = keygen(str(directory), "--rotate", "--keep-days", "2")
    assert done.returncode == 0, done.stderr
    after = {each.key: each for each in keys.public_keys(directory)}
    assert len(before) == 5 and len(after) == 10 and set(before) < set(after)
    for key, old in before.items():
        assert (after[key].role, after[key].name) == (old.role, old.name)
        assert 86_400 < after[key].expires - time.time() <= 2 * 86_400
        [new] = [each for each in after.values() if each[1:3] == old[1:3] and each.key not in before]
        assert new.expires == float("inf") and keys.is_same_holder(new.user, old.user)
        assert wait_until(lambda key=new.key: served.user_of(key)) == new.user
    (directory / "admin.key").unlink()
    assert used_by(keys.client_keys) == (directory / "submit.pub").read_bytes().strip()
    assert unchanged == [(directory / name).read_bytes() for name in ("scheduler.key", "scheduler.pub")]


def test_expired_keys_are_swept_when_new_ones_are_made(directory: Path) -> None:
    for _ in range(2):
        assert keygen(str(directory), "--rotate", "--keep-days", "0", "--roles", "submit").returncode == 0
    assert len(list(directory.glob("submit*.pub"))) == 2
    assert not list(directory.glob("work.before-*"))


def test_there_is_a_valid_key_at_every_moment(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever step is the last one before the power fails, each secret key in the directory has a public half."""
    replace, seen = os.replace, 0

    def check(*paths: Path) -> None:
        nonlocal seen
        replace(*paths)
        seen += 1
        known = {each.key for each in keys.public_keys(directory)}
        for path in directory.glob("*.key"):
            assert path.stem == "scheduler" or zmq.curve_public(path.read_bytes().strip()) in known

    monkeypatch.setattr(os, "replace", check)
    for _ in range(3):
        rotate(directory, new_key_pair, 1000.0)
    assert seen == 3 * 4 * 2
    assert len(keys.public_keys(directory)) == 4 * 4


@pytest.mark.parametrize("arguments", [("--roles", "work"), ("--name", "bob")])
def test_only_keys_that_there_are_can_be_replaced(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    generate(tmp_path, new_key_pair, ["submit"])
    done = keygen(str(tmp_path), "--rotate", *arguments)
    assert done.returncode == 2 and "has no" in done.stderr and done.stderr.count("\n") == 1, done.stderr


# ---- sockets ---------------------------------------------------------------------------------------------------------


def test_peers_with_the_keys_talk(context: Any, closing: Closing, directory: Path) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind("tcp://127.0.0.1:0")
    session = new_session()
    dealer = closing(DealerConnection(context, bound, session))
    assert wait_until(lambda: router.receive() is None and dealer.connection_events()) == ["connected"]
    assert dealer.send([b"secret words"])
    assert wait_until(router.receive) == (session, [b"secret words"])
    assert router.send(session, [b"answer"]) == "sent" and wait_until(dealer.receive) == [b"answer"]


@pytest.mark.parametrize("rotations", [1, 2])
def test_a_store_that_has_an_older_pair_is_reached(
    context: Any, closing: Closing, directory: Path, rotations: int
) -> None:
    router = closing(OpenRouter(context, keys.store_keys))
    bound = router.bind("tcp://127.0.0.1:0")
    for _ in range(rotations):
        rotate(directory, new_key_pair, 1000.0, ["work"])
    dealer = closing(DealerConnection(context, bound, new_session(), keys.store_peer_keys))
    assert wait_until(lambda: router.receive() is None and dealer.connection_events()) == ["connected"]


def test_a_store_whose_pair_has_expired_is_not_reached(context: Any, closing: Closing, directory: Path) -> None:
    router = closing(OpenRouter(context, keys.store_keys))
    bound = router.bind("tcp://127.0.0.1:0")
    rotate(directory, new_key_pair, -10.0, ["work"])
    rotate(directory, new_key_pair, 1000.0, ["work"])
    dealer = closing(DealerConnection(context, bound, new_session(), keys.store_peer_keys))
    assert wait_until(lambda: router.receive() is None and dealer.connection_events()) == ["handshake_failed"]


def test_messages_come_with_the_user_of_their_connection(context: Any, closing: Closing, directory: Path) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind("tcp://127.0.0.1:0")
    (directory / "admin.key").unlink()
    for choose, role in ((keys.client_keys, Role.SUBMIT), (keys.worker_keys, Role.WORK)):
        session = new_session()
        dealer = closing(DealerConnection(context, bound, session, choose))
        wait_until(lambda dealer=dealer: router.receive() is None and dealer.connection_events())  # type: ignore[misc]
        assert dealer.send([b"one", b"two"])
        [(peer, frames, user)] = wait_until(lambda: router.receive_many(10))
        assert (peer, frames, keys.role_of_user(user)) == (session, [b"one", b"two"], role)
        assert user.endswith(used_by(choose))


def test_what_tells_of_connections_is_known_before_it_listens(context: Any, closing: Closing, directory: Path) -> None:
    """A scheduler waits for it from its start on."""
    router = closing(OpenRouter(context))
    bound = router.reserve("tcp://127.0.0.1:0")
    before = router.monitor_fd
    router.listen()
    assert router.monitor_fd == before
    dealer = closing(DealerConnection(context, bound, new_session()))
    assert wait_until(lambda: router.receive() is None and dealer.connection_events()) == ["connected"]
    dealer.close()
    wait_until(lambda: router.receive() is None and readable(before))


def test_a_peer_without_keys_is_kept_out(
    context: Any, closing: Closing, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind("tcp://127.0.0.1:0")
    monkeypatch.delenv("SCALER_KEYS")
    plain = closing(DealerConnection(context, bound, new_session()))
    assert "handshake_failed" in wait_until(lambda: router.receive() is None and plain.connection_events())
    assert not plain.send([b"x"]) and router.receive() is None


def test_a_store_keeps_out_whose_key_it_does_not_know(
    context: Any, closing: Closing, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = closing(OpenRouter(context, keys.store_keys))
    bound = router.bind("tcp://127.0.0.1:0")
    generate(tmp_path / "others", new_key_pair)
    (tmp_path / "others" / "work.pub").write_bytes((directory / "work.pub").read_bytes())
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "others"))
    stranger = closing(DealerConnection(context, bound, new_session(), keys.store_peer_keys))
    assert wait_until(lambda: router.receive() is None and stranger.connection_events()) == ["key_refused"]
    assert not stranger.send([b"x"]) and router.receive() is None


@pytest.mark.parametrize("content", [b"broken", b"%s\nexpires tomorrow"])
def test_an_older_key_that_cannot_be_used_is_no_obstacle(directory: Path, content: bytes) -> None:
    good = (directory / "work.pub").read_bytes().strip()
    bad = directory / "work.before-20260101T000000Z.pub"
    bad.write_bytes(content % good if b"%" in content else content)
    bad.chmod(0o644)
    (directory / "work.before-any-name.pub").write_bytes(good)
    chosen = keys.store_peer_keys(NETWORK)
    assert chosen is not None and (chosen.server_public, chosen.older_server_publics) == (good, ())


def test_a_key_of_zeros_stops_a_peer_at_once(context: Any, directory: Path) -> None:
    """Anyone could read what is encrypted for it."""
    (directory / "scheduler.pub").write_bytes(b"0" * 40)
    with pytest.raises(ValueError, match="gives its secret away"):
        DealerConnection(context, "tcp://127.0.0.1:9", new_session())


def test_missing_keys_stop_a_peer_at_once(context: Any, directory: Path) -> None:
    (directory / "admin.key").unlink()
    (directory / "submit.key").unlink()
    with pytest.raises(ValueError, match="submit.key: it is missing"):
        DealerConnection(context, "tcp://127.0.0.1:9", new_session())


def test_while_keys_cannot_be_read_peers_are_to_try_again(context: Any, directory: Path) -> None:
    """A 400 would silence them for ever, and so would a Hello that is refused."""
    served = keys.scheduler_keys(NETWORK)
    assert served is not None
    authenticator = CurveAuthenticator(context, served.user_of)
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
        authenticator.close()
