"""The socket at which monitors of this machine connect.

The scheduler makes it before it takes in its first message and hands it to the publisher, so a publisher that is
started again listens on the same socket. By default it is a unix socket and lives in a folder that only this user can
write to (``$XDG_RUNTIME_DIR/scaler``, a folder of this host in ``~/.scaler``, or a private folder in /tmp), and the
well-known name in /tmp is a symbolic link to it, unless another user's file has that name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import monitor_keys
from scaler_protocol.monitor.socket_paths import is_own, socket_folders, socket_name, well_known_link
from scaler_protocol.transport.endpoints import sentence
from scaler_protocol.transport.socket_file import SocketFile

BUSY_RETRY_SECONDS = 2.0
"""Seconds for which a path may stay busy: the publisher of a scheduler that was just killed takes a moment to leave."""

RETRY_INTERVAL_SECONDS = 0.05
SWEEP_LIMIT = 10_000
"""Entries of a folder that are looked at for sockets of dead schedulers."""

_BACKLOG = 128
_SUFFIX = "_monitor"
_TEMPORARY = re.compile(r"\.(\d+)")
_ANSWERING = (0, errno.EAGAIN, errno.EACCES, errno.EPERM)
"""Results of ``connect`` if a process listens, or if that cannot be known."""


class MonitorSocket:
    """A listening socket, its file and the link to it if there are any. ``address``: what users give to a monitor.
    ``listen_again`` makes another socket with the same file."""

    def __init__(
        self,
        listener: socket.socket,
        address: str,
        path: str = "",
        link: str = "",
        listen_again: Callable[[], socket.socket] | None = None,
    ) -> None:
        self.address = address
        self.path = path
        self.link = link
        self._listener = listener
        self._listen_again = listen_again
        self._files = MonitorFiles(path, link)

    def fileno(self) -> int:
        return self._listener.fileno()

    def restore(self) -> None:
        """Listen again if the file has been removed: by a program that cleans up, or by a publisher that lost its
        connection to the scheduler. OSError when that is not possible."""
        if self._listen_again is None or self._files.are_there():
            return
        listener = self._listen_again()
        self._listener.close()
        self._listener = listener
        self.link = _make_link(self.link, self.path)
        self._files = MonitorFiles(self.path, self.link)

    def close(self) -> None:
        """Stop listening; nothing is left behind. May be called twice."""
        self._files.remove()
        self._listener.close()


class MonitorFiles:
    """The file of a listening socket, and the link to it. They are removed before the socket is closed: until then no
    other file can have the same inode."""

    def __init__(self, path: str, link: str) -> None:
        self._path = path
        self._link = link
        self._file = SocketFile(Address("ipc", path=path)) if path and not path.startswith("@") else None

    def are_there(self) -> bool:
        """Return whether the socket has no file, or still has it."""
        return self._file is None or self._file.is_there()

    def remove(self) -> None:
        """Unless others have replaced them. The link goes first: a later scheduler removes a file that is left alone,
        and only with it the link."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            if self._link and self._file.is_there():
                _remove_link(self._link, self._path)
            self._file.remove()


def listen_at(address: Address) -> MonitorSocket | None:
    """Listen at an explicit address. None: other machines can reach it, or it has keys, and libzmq must listen there.
    OSError, with one plain sentence, when the address cannot be used."""
    if not address.is_local or address.scheme == "inproc" or monitor_keys(address) is not None:
        return None
    try:
        if address.scheme == "tcp":
            return _listen_on_port(address)
        _wait_until_free(address.path)
        listen = partial(_listen, address.path)
        return MonitorSocket(listen(), str(address), address.path, listen_again=listen)
    except OSError as error:
        raise sentence(error.errno, _sentence(str(address), error)) from error


def listen_by_default(scheduler_address: str) -> MonitorSocket:
    """Return where monitors of a scheduler at this address look. Sockets of schedulers that were killed are removed.
    OSError, with one plain sentence, when there is no place for it."""
    address = parse_address(scheduler_address)
    reasons = []
    for folder in socket_folders():
        path = os.path.join(folder, socket_name(address))
        listen = partial(_listen_in, folder, path)
        try:
            _wait_until_free(path)
            listener = listen()
        except OSError as error:
            reasons.append(f"{path}: {_reason(error)}")
            continue
        _sweep_all()
        link = _make_link(well_known_link(address), path)
        return MonitorSocket(listener, f"ipc://{link or path}", path, link, listen)
    raise sentence(
        errno.ENOENT,
        f"cannot create the monitors' socket: {'; '.join(reasons)}. Choose its place with --monitor-address.",
    )


# ---- where ---------------------------------------------------------------------------------------------------------


def _prepare(folder: str) -> None:
    """Make the folder if need be. OSError unless it is this user's alone."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder")
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "the folder belongs to another user")
    if status.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "other users can write to the folder")


# ---- the socket ----------------------------------------------------------------------------------------------------


def _listen_in(folder: str, path: str) -> socket.socket:
    """The socket listens before it gets its name, because a file that does not answer counts as dead and may be
    removed by another scheduler."""
    if len(os.fsencode(path)) > 107:
        raise OSError(errno.ENAMETOOLONG, "the path is too long for a socket")
    _prepare(folder)
    _require_free(path)
    temporary = os.path.join(folder, f".{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    listener = _bound(temporary)
    try:
        os.rename(temporary, path)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return listener


def _listen(path: str) -> socket.socket:
    if path.startswith("@"):
        return _bound("\0" + path[1:])
    _require_free(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return _bound(path)


def _listen_on_port(address: Address) -> MonitorSocket:
    host = "127.0.0.1" if address.host == "localhost" else address.host
    deadline = time.monotonic() + BUSY_RETRY_SECONDS
    while True:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, address.port))
            listener.listen(_BACKLOG)
            return MonitorSocket(listener, str(replace(address, port=listener.getsockname()[1])))
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_INTERVAL_SECONDS)


def _bound(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.fchmod(listener.fileno(), 0o600)  # the mode of the file that it is going to have
        listener.bind(name)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _wait_until_free(path: str) -> None:
    """At most for a while."""
    deadline = time.monotonic() + BUSY_RETRY_SECONDS
    while not _is_free(path) and time.monotonic() <= deadline:
        time.sleep(RETRY_INTERVAL_SECONDS)


def _require_free(path: str) -> None:
    if not _is_free(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _is_free(path: str) -> bool:
    """Return whether nothing is there but what a dead process of this user left. OSError: something else is."""
    if path.startswith("@"):
        return True  # an abstract name has no file: it is free when it can be bound
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "a file of another user has this name")
    if not stat.S_ISSOCK(status.st_mode) and not _is_link_to_socket(path):
        raise FileExistsError(errno.EEXIST, "a file with this name exists")
    return not _answers(path)


def _is_link_to_socket(path: str) -> bool:
    """Or to nothing."""
    if not os.path.islink(path):
        return False
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            return probe.connect_ex(path) in _ANSWERING
        except OSError:  # longer than any socket's path
            return False


# ---- what others left ----------------------------------------------------------------------------------------------


def _sweep_all() -> None:
    """Remove sockets of schedulers of this user that were killed, and the links to them."""
    for folder in socket_folders():
        with contextlib.suppress(OSError):
            if is_own(folder):
                _sweep(folder)


def _sweep(folder: str) -> None:
    with os.scandir(folder) as entries:
        _remove_dead(islice(entries, SWEEP_LIMIT))


def _remove_dead(entries: Iterable[os.DirEntry[str]]) -> None:
    for entry in entries:
        if _is_dead(entry):
            os.unlink(entry.path)
            _remove_link(f"/tmp/{entry.name}", entry.path)


def _is_dead(entry: os.DirEntry[str]) -> bool:
    beginning = _TEMPORARY.fullmatch(entry.name)
    if beginning is None and not entry.name.endswith(_SUFFIX):
        return False
    if beginning is not None and os.path.exists(f"/proc/{beginning[1]}"):
        return False  # it is about to listen
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) and not _answers(entry.path)


# ---- the link ------------------------------------------------------------------------------------------------------


def _make_link(link: str, path: str) -> str:
    """Make ``link`` lead to ``path``. Return ``link``, or an empty string if that failed. A file of another user, and a
    link to another running scheduler, stay as they are."""
    try:
        if link and _is_link_to(link, path):  # of a scheduler that was killed: its socket's path is this one's
            return link
        if link and _is_free(link):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)
            os.symlink(path, link)
            return link
    except OSError:
        pass
    return ""


def _remove_link(link: str, path: str) -> None:
    with contextlib.suppress(OSError):
        if _is_link_to(link, path):
            os.unlink(link)


def _is_link_to(link: str, path: str) -> bool:
    """Return whether this user has made it."""
    return os.path.islink(link) and os.lstat(link).st_uid == os.geteuid() and os.readlink(link) == path


# ---- sentences -----------------------------------------------------------------------------------------------------


def _sentence(address: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"the monitor address {address} is already in use"
    return f"cannot listen on the monitor address {address}: {_reason(error)}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
