"""Where the monitors' socket is made, and what is left of dead ones."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol.address import Address
from scaler_protocol.monitor import socket_paths
from scaler_scheduler.shell import monitor_socket
from scaler_scheduler.shell.monitor_socket import MonitorSocket, listen_at, listen_by_default
from tests.support.users import another_user, listen


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder at run time, and a home elsewhere. Short paths: that of a socket has 107 bytes at most."""
    with (
        tempfile.TemporaryDirectory(prefix="run-", dir="/tmp") as folder,
        tempfile.TemporaryDirectory(dir="/tmp") as at,
    ):
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("SCALER_HOME", f"{at}/home")
        yield Path(folder)


@pytest.fixture
def name() -> Iterator[str]:
    """What a scheduler's socket is called, and free in /tmp."""
    host = f"h{secrets.token_hex(6)}"
    yield f"{host}_2345_monitor"
    Path(f"/tmp/{host}_2345_monitor").unlink(missing_ok=True)


def open_for(name: str) -> MonitorSocket:
    return listen_by_default(f"tcp://{name.partition('_')[0]}:2345")


def connect(path: Path | str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(path))


def leave_dead(path: Path) -> None:
    """As a process does that is killed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen()


def test_it_lives_in_the_runtime_folder_and_the_well_known_name_leads_to_it(runtime: Path, name: str) -> None:
    opened = open_for(name)
    path = runtime / "scaler" / name
    assert opened.path == str(path) and opened.address == f"ipc:///tmp/{name}"
    assert os.readlink(f"/tmp/{name}") == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    connect(f"/tmp/{name}")
    opened.close()
    opened.close()
    assert not os.path.lexists(f"/tmp/{name}") and list(path.parent.iterdir()) == []


@pytest.mark.parametrize("runtime_folder", ["", "relative", "/nonexistent/folder", "missing"])
def test_without_a_runtime_folder_it_lives_in_the_home_of_scaler(
    runtime: Path, name: str, runtime_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = str(runtime / "missing") if runtime_folder == "missing" else runtime_folder
    monkeypatch.setenv("XDG_RUNTIME_DIR", wanted)
    opened = open_for(name)
    assert opened.path == str(Path(os.environ["SCALER_HOME"]) / socket.gethostname() / name)
    assert not (runtime / "missing").exists()
    opened.close()


def test_the_runtime_folder_of_another_user_is_not_used(
    runtime: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(runtime, 65534, 65534)
    opened = open_for(name)
    assert opened.path.startswith(os.environ["SCALER_HOME"])
    opened.close()


def test_a_path_that_is_too_long_and_a_home_that_cannot_be_written_lead_to_the_next_choice(
    runtime: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir(0o700)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setenv("SCALER_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(socket_paths, "_LAST_FOLDER", f"{tmp_path}/last")
    opened = open_for(name)
    assert opened.path == f"{tmp_path}/last/{name}"
    opened.close()


def test_a_file_system_without_sockets_and_a_user_without_home_lead_to_the_next_choice(
    runtime: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = monitor_socket._bound

    def bound_elsewhere(path: str) -> socket.socket:
        if path.startswith(str(runtime)):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return bound(path)

    def no_home() -> Path:
        raise ValueError("Cannot find the home directory of this user.")

    monkeypatch.setattr(monitor_socket, "_bound", bound_elsewhere)
    monkeypatch.setattr(socket_paths, "home_directory", no_home)
    monkeypatch.setattr(socket_paths, "_LAST_FOLDER", f"{tmp_path}/last")
    opened = open_for(name)
    assert opened.path == f"{tmp_path}/last/{name}" and list((runtime / "scaler").iterdir()) == []
    opened.close()


def test_a_folder_that_others_can_write_to_is_not_used(runtime: Path, name: str) -> None:
    (runtime / "scaler").mkdir()
    (runtime / "scaler").chmod(0o777)
    opened = open_for(name)
    assert opened.path.startswith(os.environ["SCALER_HOME"])
    opened.close()


def test_without_any_place_it_is_one_sentence(
    runtime: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for variable in ("XDG_RUNTIME_DIR", "SCALER_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "file"))
    monkeypatch.setattr(socket_paths, "_LAST_FOLDER", f"{tmp_path}/file/last")
    with pytest.raises(OSError, match="^cannot create the monitors' socket: .*. Choose its place with --monitor-add"):
        open_for(name)


def test_a_stale_link_and_a_dead_socket_are_replaced(runtime: Path, name: str) -> None:
    leave_dead(runtime / "scaler" / name)
    os.symlink("/nonexistent/of/before", f"/tmp/{name}")
    opened = open_for(name)
    assert opened.address == f"ipc:///tmp/{name}"
    connect(f"/tmp/{name}")
    opened.close()


def test_an_older_dead_socket_at_the_well_known_name_is_replaced(runtime: Path, name: str) -> None:
    leave_dead(Path("/tmp") / name)
    opened = open_for(name)
    assert os.path.islink(f"/tmp/{name}")
    opened.close()


def test_a_link_to_a_scheduler_that_runs_and_a_file_of_ones_own_stay(runtime: Path, name: str, tmp_path: Path) -> None:
    other = listen_at(Address("ipc", path=str(tmp_path / "other")))
    os.symlink(other.path, f"/tmp/{name}")
    opened = open_for(name)
    assert opened.address == f"ipc://{opened.path}" and os.readlink(f"/tmp/{name}") == other.path
    opened.close()
    other.close()
    os.unlink(f"/tmp/{name}")
    Path(f"/tmp/{name}").write_text("precious")
    opened = open_for(name)
    assert opened.address == f"ipc://{opened.path}"
    opened.close()
    assert Path(f"/tmp/{name}").read_text() == "precious"


@pytest.mark.parametrize("kind", ["file", "socket", "link", "folder"])
def test_what_another_user_has_at_the_well_known_name_changes_nothing(runtime: Path, name: str, kind: str) -> None:
    path = f"/tmp/{name}"
    makers = {
        "file": lambda: Path(path).write_text("squatted"),
        "socket": lambda: listen(path),
        "link": lambda: os.symlink("/etc/passwd", path),
        "folder": lambda: os.mkdir(path),
    }
    with another_user(makers[kind]) as user:
        opened = open_for(name)
        assert opened.address == f"ipc://{opened.path}" and opened.path == f"{runtime}/scaler/{name}"
        connect(opened.path)
        opened.close()
        assert os.lstat(path).st_uid == user
    os.rmdir(path) if kind == "folder" else os.unlink(path)


def test_an_explicit_address_that_another_user_has_is_one_sentence(name: str) -> None:
    with another_user(lambda: listen(f"/tmp/{name}")):
        with pytest.raises(OSError, match="^cannot listen on the monitor address .*: a file of another user has this"):
            listen_at(Address("ipc", path=f"/tmp/{name}"))
    os.unlink(f"/tmp/{name}")


def test_an_explicit_address_replaces_the_link_that_a_dead_scheduler_left(name: str) -> None:
    os.symlink("/nonexistent/of/before", f"/tmp/{name}")
    opened = listen_at(Address("ipc", path=f"/tmp/{name}"))
    connect(f"/tmp/{name}")
    opened.close()
    assert not os.path.lexists(f"/tmp/{name}")


def test_sockets_of_dead_schedulers_are_removed_and_others_stay(runtime: Path, name: str) -> None:
    folder = runtime / "scaler"
    dead = folder / f"dead{name}"
    leave_dead(dead)
    leave_dead(folder / ".999999999")
    leave_dead(folder / "of_something_else")
    os.symlink(dead, f"/tmp/{dead.name}")
    living = listen_at(Address("ipc", path=str(folder / f"living{name}")))
    opened = open_for(name)
    assert {path.name for path in folder.iterdir()} == {name, f"living{name}", "of_something_else"}
    assert not os.path.lexists(f"/tmp/{dead.name}")
    opened.close()
    living.close()


def test_a_publisher_that_leaves_late_takes_nothing_from_the_next_scheduler(runtime: Path, name: str) -> None:
    late = open_for(name)
    socket.socket(fileno=os.dup(late.fileno())).shutdown(socket.SHUT_RDWR)  # nothing listens there any more
    opened = open_for(name)
    late.close()
    connect(f"/tmp/{name}")
    opened.close()
    assert not os.path.lexists(f"/tmp/{name}")


@pytest.mark.parametrize("removed", ["file", "folder and link"])
def test_a_socket_whose_file_was_removed_is_restored(runtime: Path, name: str, removed: str) -> None:
    opened = open_for(name)
    (runtime / "scaler" / name).unlink()
    if removed == "folder and link":
        (runtime / "scaler").rmdir()
        Path(f"/tmp/{name}").unlink()
    opened.restore()
    connect(f"/tmp/{name}")
    opened.close()
    assert not os.path.lexists(f"/tmp/{name}") and list(runtime.rglob("*_monitor")) == []


def test_what_is_there_is_not_restored(name: str, tmp_path: Path) -> None:
    for opened in (listen_at(Address("ipc", path=f"@{name}")), listen_at(Address("ipc", path=f"{tmp_path}/monitor"))):
        assert opened is not None
        listener = opened.fileno()
        opened.restore()
        assert opened.fileno() == listener
        opened.close()


def test_a_place_that_another_scheduler_has_taken_is_not_restored(name: str, tmp_path: Path) -> None:
    address = Address("ipc", path=f"{tmp_path}/monitor")
    first = listen_at(address)
    assert first is not None
    os.unlink(address.path)
    second = listen_at(address)
    assert second is not None
    with pytest.raises(OSError, match="in use"):
        first.restore()
    first.close()
    connect(address.path)
    second.close()


def test_an_abstract_address_has_no_file(name: str) -> None:
    opened = listen_at(Address("ipc", path=f"@{name}"))
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(f"\0{name}")
    opened.close()


def test_schedulers_at_ipc_addresses_of_one_name_have_sockets_of_their_own(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (listen_by_default(f"ipc://{tmp_path}/{each}/scheduler") for each in "ab")
    assert first.path != second.path
    assert first.address == f"ipc://{tmp_path}/a/scheduler_monitor"
    connect(tmp_path / "a" / "scheduler_monitor")
    first.close()
    second.close()
