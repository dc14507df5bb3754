"""Where a monitor looks for the publisher of a scheduler whose address it is given."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol.address import parse_address
from scaler_protocol.monitor.socket_paths import find_socket


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path: that of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="run-", dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setenv("SCALER_HOME", str(tmp_path / "home"))
        folder = Path(runtime) / "scaler"
        folder.mkdir()
        yield folder


def make_socket(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return str(path)


def find(address: str) -> str:
    return find_socket(parse_address(address))


def test_the_socket_of_the_scheduler_at_this_address(folder: Path) -> None:
    path = make_socket(folder / "127.0.0.1_1_monitor")
    assert find("tcp://127.0.0.1:1") == path
    assert find("tcp://127.0.0.1:2") == ""


@pytest.mark.parametrize("name", ["any_1_monitor", "0.0.0.0_1_monitor", "___1_monitor"])
def test_a_scheduler_that_listens_at_all_addresses(folder: Path, name: str) -> None:
    path = make_socket(folder / name)
    assert find("tcp://127.0.0.1:1") == path
    assert find("tcp://localhost:1") == path


def test_another_machine_has_no_socket_here(folder: Path) -> None:
    make_socket(folder / "any_1_monitor")
    assert find("tcp://192.0.2.1:1") == ""
    assert find("tcp://no-such-host.invalid:1") == ""


def test_a_file_that_is_not_a_socket_is_not_found(folder: Path) -> None:
    (folder / "127.0.0.1_1_monitor").write_text("")
    assert find("tcp://127.0.0.1:1") == ""
