from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from scaler_protocol import security
from scaler_protocol.security import check_bind_allowed, ensure_token, read_token


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCALER_HOME", str(tmp_path / "deep" / "home"))
    return tmp_path / "deep" / "home"


def test_token_is_made_once_and_private(home: Path) -> None:
    assert read_token() == b""
    token = ensure_token()
    assert len(token) >= 32 and ensure_token() == read_token() == token
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
        with pytest.raises(PermissionError, match="can be read by other users: run chmod 600"):
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
    with pytest.raises(ValueError, match="cannot be kept in .*Not a directory.*set SCALER_HOME"):
        ensure_token()


def test_home_is_in_the_users_directory_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SCALER_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert security.home_directory() == tmp_path / ".scaler"


def test_public_addresses_need_keys_or_a_word() -> None:
    for address in ("tcp://127.0.0.1:1", "ipc:///tmp/x", "inproc://x"):
        check_bind_allowed(address, insecure=False)
    for address in ("tcp://0.0.0.0:1", "tcp://*:1", "tcp://host:1"):
        check_bind_allowed(address, insecure=True)
        with pytest.raises(ValueError, match=r"CURVE keys \(scaler_keygen DIR, then SCALER_KEYS=DIR\).*--insecure"):
            check_bind_allowed(address, insecure=False)
