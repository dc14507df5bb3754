"""Reaching the store of a host, and starting one where there is none.

Any process of this host may take the name of the socket before a store does. It may then listen or not, and accept or
not, so nothing here waits for such a process indefinitely, and after an attempt that has cost time, none is made for a
while.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from typing import NamedTuple

from scaler_protocol.codec import decode, encode
from scaler_protocol.command.interpreter import module_command
from scaler_protocol.command.remedies import with_remedy
from scaler_protocol.handshake import PeerHandshake, make_hello
from scaler_protocol.ids import new_session
from scaler_protocol.messages import Body, Challenge, Envelope, Hello, Refused, Role, Welcome
from scaler_protocol.objects import silence
from scaler_protocol.objects.admission import DIRECTORY_FEATURE, PLACE_MANY_FEATURE, handshake_with
from scaler_protocol.objects.directory import DirectoryView
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.memory import AVAILABLE, Releases
from scaler_protocol.objects.names import NAME_IS_TAKEN, REFUSED, is_same_user, socket_name
from scaler_protocol.objects.polling import wait_readable
from scaler_protocol.transport.stream import StreamConnection

START_SECONDS = 20.0
TAKEN_SECONDS = 3.0
"""A process that has the name of the store for this long, and does not accept a connection, is not a store that is
about to listen, or is busy."""

AVOID_SECONDS = 60.0
"""Another process that has the name of the store is left alone for this long."""

_ABSENT, _ENDED = "absent", "ended"
_DOES_NOT_LISTEN_TEXT = (
    "Another process has the name of the object store of this cluster, {}, and does not listen. End it: 'ss -xap' shows"
    " it to root."
)
_ENDS_CONNECTIONS_TEXT = (
    "The process that listens as the object store of this cluster, {}, ends each connection. If it is the store, it has"
    " no memory left: raise what limits it (ulimit -v, a service or container). 'ss -xap' shows it to root."
)

_PAUSE_SECONDS = 0.01
_MODULE = "scaler_protocol.objects.store"


class Reached(NamedTuple):
    """A welcomed connection to a store, its id, and where it hears which pins are released. ``directory``: None for a
    store without one. ``takes_many``: it knows StorePlaceMany."""

    stream: StreamConnection
    store: bytes
    releases: Releases
    directory: DirectoryView | None = None
    takes_many: bool = False


def reach(cluster: bytes, may_start: bool) -> Reached:
    """This host's store. Raises StoreUnavailable when there is none and none may be, or can be, started, and when this
    process lacks what it needs to connect. A store that does not answer is ended first, which takes 15 s."""
    if not AVAILABLE or not hasattr(os, "memfd_create"):
        raise StoreUnavailable("Object stores need Linux.")
    avoided_until, why = _avoided.get(cluster, (0.0, ""))
    if time.monotonic() < avoided_until:
        raise StoreUnavailable(why)
    try:
        return _reach(cluster, may_start, time.monotonic() + START_SECONDS)
    except _NameIsTaken as error:
        _avoided[cluster] = time.monotonic() + AVOID_SECONDS, str(error)
        raise
    except OSError as error:
        why = with_remedy(error, "this process")
        raise StoreUnavailable(f"Cannot connect to the object store of this host, or start it: {why}.") from error


_avoided: dict[bytes, tuple[float, str]] = {}
"""Clusters whose store cannot be reached because another process has its name: until when, and why."""


class _NameIsTaken(StoreUnavailable):
    """Another process has the name of the store."""


def _reach(cluster: bytes, may_start: bool, deadline: float) -> Reached:
    taken_since: float | None = None
    while True:
        reached = _try(cluster, deadline)
        if isinstance(reached, Reached):
            return reached
        if not may_start:
            raise StoreUnavailable("This host has no object store of this cluster.")
        if time.monotonic() > deadline:
            raise StoreUnavailable("The object store of this host cannot be started.")
        if not _start(cluster, deadline):
            taken_since = None
            continue
        taken_since = taken_since or time.monotonic()
        if time.monotonic() > taken_since + TAKEN_SECONDS:
            text = _ENDS_CONNECTIONS_TEXT if reached is _ENDED else _DOES_NOT_LISTEN_TEXT
            raise _NameIsTaken(text.format(socket_name(cluster)))


def _try(cluster: bytes, deadline: float) -> Reached | str:
    """``_ABSENT`` if no store listens, ``_ENDED`` if one has ended the connection: it is ending, or lacks memory."""
    connected = _connect(cluster)
    if connected is None:
        return _ABSENT
    stream = StreamConnection(connected)
    try:
        handshake = handshake_with(cluster)
        hello = make_hello(Role.WORK, new_session(), features=(DIRECTORY_FEATURE, PLACE_MANY_FEATURE))
        releases = _say_hello(stream, handshake.begin(hello))
        answer = _answer_of(stream, handshake, deadline)
        if isinstance(answer, Refused):
            raise StoreUnavailable(answer.text)
        if isinstance(answer, Welcome):
            if handshake.judge(answer) != "genuine":
                raise StoreUnavailable(handshake.forged_text)
            directory, takes_many = _directory_from(stream, answer), PLACE_MANY_FEATURE in answer.features
            return Reached(stream, answer.session, releases, directory, takes_many)
    except BaseException:
        stream.close()
        raise
    stream.close()
    time.sleep(_PAUSE_SECONDS)
    return _ENDED


def _answer_of(stream: StreamConnection, handshake: PeerHandshake, deadline: float) -> Body | None:
    """Return the answer of the store to the Hello, after its challenges have been answered."""
    answer = _first(stream, deadline)
    while isinstance(answer, Challenge) and (proved := handshake.answer(answer)) is not None:
        stream.send(encode(Envelope(proved)))
        answer = _first(stream, deadline)
    return answer


def _connect(cluster: bytes) -> socket.socket | None:
    """A connection to a process of this user; None if nothing listens. A listener of any user may have more waiting
    connections than it accepts, where ``connect`` would block for as long as it likes."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if not _connected_in_time(connected, "\0" + socket_name(cluster)[1:]):
            raise _NameIsTaken("The process that listens in place of the object store of this cluster does not accept.")
        if not is_same_user(connected):
            raise _NameIsTaken("A process of another user listens in place of the object store of this cluster.")
    except StoreUnavailable:
        connected.close()
        raise
    except OSError:
        connected.close()
        return None
    return connected


def _connected_in_time(connected: socket.socket, name: str) -> bool:
    """False: too many wait there already. Raises OSError."""
    deadline = time.monotonic() + TAKEN_SECONDS
    while True:
        try:
            connected.connect(name)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        time.sleep(_PAUSE_SECONDS)


def _directory_from(stream: StreamConnection, welcome: Welcome) -> DirectoryView | None:
    if DIRECTORY_FEATURE not in welcome.features or not stream.received_fds:
        return None
    fd = stream.received_fds.popleft()
    try:
        return DirectoryView(fd)
    except (OSError, ValueError):
        return None  # no memory to map it
    finally:
        os.close(fd)


def _say_hello(stream: StreamConnection, hello: Hello) -> Releases:
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    releases = Releases(writing)
    try:
        stream.send(encode(Envelope(hello)), (reading,))
    finally:
        os.close(reading)
    return releases


def _first(stream: StreamConnection, deadline: float) -> Body | None:
    """None: it has ended, perhaps since it said nothing."""
    silent = silence.Silence(stream.plain_socket)
    while True:
        frames = stream.receive()
        if frames is not None:
            return decode(frames).body
        if stream.eof:
            return None
        rest = deadline - time.monotonic()
        if wait_readable(stream.fd, min(rest, silence.PERIOD_SECONDS)):
            continue
        if silent.is_final():
            return None
        if rest <= 0:
            raise StoreUnavailable("The object store of this host does not respond.")


def _start(cluster: bytes, deadline: float) -> bool:
    """It listens, or lost to another, when the process started here has ended: what serves is that one's child, in a
    session of its own, so no process waits for it or ends it by ending. Returns whether another process has its
    name."""
    command, environment = module_command(_MODULE, cluster.hex())
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        code = process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    if code > REFUSED:
        why = with_remedy(OSError(code - REFUSED, os.strerror(code - REFUSED)), "its process")
        raise StoreUnavailable(f"The object store of this host cannot be started: {why}.")
    if code not in (0, NAME_IS_TAKEN):
        raise StoreUnavailable("The object store of this host cannot be started: its process failed.")
    return code == NAME_IS_TAKEN
