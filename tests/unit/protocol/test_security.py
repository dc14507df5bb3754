from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler_protocol import security
from scaler_protocol.monitor.socket_paths import socket_folders
from scaler_protocol.private_file import replace_private_file
from scaler_protocol.security import check_bind_allowed, ensure_token, home_directory, is_token, read_token


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCALER_HOME", str(tmp_path / "deep" / "home"))
    return tmp_path / "deep" / "home"


def test_token_is_made_once_and_private(home: Path) -> None:
    assert read_token() == b""
    token = ensure_token()
    assert is_token(token) and ensure_token() == read_token() == token
    assert (home / "token").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert os.listdir(home) == ["token"]


def test_token_made_by_many_at_once_is_the_same(home: Path) -> None:
    tokens: list[bytes] = []
    threads = [threading.Thread(target=lambda: tokens.append(ensure_token())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 16 and len(set(tokens)) == 1


def test_token_that_others_can_read_is_refused(home: Path) -> None:
    ensure_token()
    (home / "token").chmod(0o640)
    for call in (read_token, ensure_token):
        with pytest.raises(PermissionError, match="can be read by other users. Run chmod 600"):
            call()


def test_token_of_another_user_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_token()
    monkeypatch.setattr(security.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        read_token()


def test_token_that_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("SCALER_HOME", str(file / "home"))
    assert read_token() == b""
    with pytest.raises(ValueError, match="Cannot keep the token .*Not a directory. Set SCALER_HOME"):
        ensure_token()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setenv("SCALER_HOME", str(tmp_path / "home"))
    with pytest.raises(ValueError, match="Cannot keep the token .*Permission denied. Set SCALER_HOME"):
        ensure_token()


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 64, b"0" * 63, b"0" * 65, b"0" * 32 + b" " + b"0" * 31])
def test_a_damaged_token_is_an_error_that_names_the_file(home: Path, content: bytes) -> None:
    """Also an empty one, which a power loss may leave: it must not pass for having none."""
    ensure_token()
    (home / "token").write_bytes(content)
    for call in (read_token, ensure_token):
        with pytest.raises(ValueError, match=f"Cannot use the token in {home / 'token'}: .* delete the file"):
            call()


def test_a_token_is_on_disk_before_it_has_its_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a power loss could leave the name without the content."""
    steps: list[str] = []
    sync, link = os.fsync, os.link

    def note_sync(descriptor: int) -> None:
        steps.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    def note_link(*arguments: Path) -> None:
        steps.append("link")
        link(*arguments)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    ensure_token()
    assert steps[-3:] == ["file", "link", "directory"]


@pytest.mark.parametrize("make", [ensure_token, lambda: replace_private_file(home_directory() / "name", b"x")])
def test_a_full_disk_leaves_no_part_of_a_file(
    make: Callable[[], object], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    home.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((OSError, ValueError), match="No space left"):
        make()
    assert list(home.iterdir()) == []


def test_home_is_in_the_users_directory_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SCALER_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert security.home_directory() == tmp_path / ".scaler"


def test_a_user_without_a_home_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no name."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SCALER_HOME", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    for function in (security.home_directory, read_token, ensure_token):
        with pytest.raises(ValueError, match="has none here. Set SCALER_HOME to a writable directory"):
            function()
    assert [*socket_folders()] == [f"/tmp/scaler-{os.geteuid()}"]


def test_public_addresses_need_keys_or_a_word() -> None:
    for address in ("tcp://127.0.0.1:1", "ipc:///tmp/x", "inproc://x"):
        check_bind_allowed(address, insecure=False)
    for address in ("tcp://0.0.0.0:1", "tcp://*:1", "tcp://host:1"):
        check_bind_allowed(address, insecure=True)
        with pytest.raises(ValueError, match=r"CURVE keys \(scaler_keygen DIR, then SCALER_KEYS=DIR\).*--insecure"):
            check_bind_allowed(address, insecure=False)
