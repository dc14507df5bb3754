"""What a test run may leave on the machine: processes, listening ports, socket files, shared memory."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import socket
import stat
import tempfile
import time
from pathlib import Path

import psutil

SETTLE_SECONDS = 15.0
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of orphans among its descendants, so that a lost process is still seen here."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def present() -> dict[str, str]:
    """Everything there now that a test could have left: a key that names it, and what it is in words."""
    processes = _processes()
    return {**_process_words(processes), **_ports(processes), **_socket_files(), **_shared_memory()}


def left_since(before: dict[str, str]) -> dict[str, str]:
    """What is there and was not; things on their way out get some seconds."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        left = {key: words for key, words in present().items() if key not in before and not _is_of_others(key)}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def shared_memory_since(before: dict[str, str]) -> list[str]:
    """As ``left_since``, but shared memory alone."""
    return [words for key, words in left_since(before).items() if key.startswith("shared-memory ")]


def sweep(left: dict[str, str]) -> None:
    """End and remove what was left, so that the next tests do not meet it, and reap the orphans that ended."""
    for key in left:
        kind, name = key.split(" ", 1)
        with contextlib.suppress(OSError, psutil.Error):
            if kind == "process":
                psutil.Process(int(name.split("@")[0])).kill()
            elif kind in ("socket-file", "shared-memory"):
                os.unlink(name)
    _reap()


def _processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if _is_running(child)]


def _is_running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _process_words(processes: list[psutil.Process]) -> dict[str, str]:
    words = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline()) or process.name()
            words[f"process {process.pid}@{process.create_time()}"] = f"process {process.pid}: {command}"
    return words


def _ports(processes: list[psutil.Process]) -> dict[str, str]:
    words = {}
    for process in [psutil.Process(), *processes]:
        with contextlib.suppress(psutil.Error):
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    words[f"port {connection.laddr.port}"] = f"port {connection.laddr.port} of process {process.pid}"
    return words


def _socket_files() -> dict[str, str]:
    """Socket files that no process listens on any more. One that a living process holds goes with that process, and may
    belong to someone else on this machine. The folder of monitor sockets is left out: what a killed scheduler leaves
    there is removed by the next one."""
    held = _held_socket_files()
    folders = {Path("/tmp"), Path(tempfile.gettempdir()), Path(os.environ.get("SCALER_HOME", "/tmp"))}
    paths = {str(path) for folder in folders for path in _sockets_in(folder)}
    deserted = [path for path in sorted(paths - held) if _is_deserted(path)]
    return {f"socket-file {path}": f"socket file {path}" for path in [*deserted, *_dangling_links()]}


def _dangling_links() -> list[str]:
    """From the well-known names of monitor addresses to sockets of these tests that are gone."""
    home = os.environ.get("SCALER_HOME", "")
    found = []
    with contextlib.suppress(OSError):
        for path in Path("/tmp").glob("*_monitor"):
            with contextlib.suppress(OSError):
                if home and os.readlink(path).startswith(home) and not path.exists():
                    found.append(str(path))
    return found


def _sockets_in(folder: Path) -> list[Path]:
    found = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    found.append(path)
    return found


def _held_socket_files() -> set[str]:
    """By processes of this network namespace."""
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as lines:
        return {line.split()[-1] for line in lines if "/" in line}


def _is_deserted(path: str) -> bool:
    """Asked only of what nobody holds in this network namespace: in another one somebody may."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) == errno.ECONNREFUSED


def _shared_memory() -> dict[str, str]:
    own = os.getuid()
    words = {}
    with contextlib.suppress(OSError):
        for path in Path("/dev/shm").iterdir():
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == own:
                    words[f"shared-memory {path}"] = f"shared memory {path}"
    return words


def _is_of_others(key: str) -> bool:
    """Shared memory that a process which is not a descendant uses, or named after itself."""
    kind, path = key.split(" ", 1)
    if kind != "shared-memory":
        return False
    family = {os.getpid(), *(process.pid for process in psutil.Process().children(recursive=True))}
    others = [pid for pid in psutil.pids() if pid not in family]
    return _named_after(path) in others or any(uses(pid, path) for pid in others)


def _named_after(path: str) -> int | None:
    found = re.match(r"(?:scaler-fuzz-|sem\.loky-|joblib_memmapping_folder_)(\d+)[-_]", Path(path).name)
    return int(found[1]) if found else None


def uses(pid: int, path: str) -> bool:
    """Whether the process has mapped the file, or opened it, or what is in the folder."""
    with contextlib.suppress(OSError):
        if path in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape"):
            return True
        return any(_link(each).startswith(path) for each in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _link(path: Path) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""


def _reap() -> None:
    for child in psutil.Process().children():
        with contextlib.suppress(OSError, psutil.Error):
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
