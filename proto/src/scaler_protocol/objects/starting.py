"""Reaching the store of a host, and starting one where there is none."""

from __future__ import annotations

import os
import subprocess
import time
from typing import NamedTuple

from scaler_protocol.codec import decode, encode
from scaler_protocol.command.interpreter import module_command
from scaler_protocol.handshake import make_hello
from scaler_protocol.ids import new_session
from scaler_protocol.messages import Body, Challenge, Envelope, Hello, Refused, Role, Welcome
from scaler_protocol.objects import silence
from scaler_protocol.objects.admission import DIRECTORY_FEATURE, PLACE_MANY_FEATURE, handshake_with
from scaler_protocol.objects.directory import DirectoryView
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.memory import AVAILABLE, Releases
from scaler_protocol.objects.names import is_same_user, socket_name
from scaler_protocol.objects.polling import wait_readable
from scaler_protocol.transport.stream import StreamConnection

START_SECONDS = 20.0
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
    """This host's store. Raises StoreUnavailable when there is none and none may be, or can be, started. One that does
    not answer is ended first, which takes 15 s."""
    if not AVAILABLE or not hasattr(os, "memfd_create"):
        raise StoreUnavailable("Object stores need Linux.")
    deadline = time.monotonic() + START_SECONDS
    while True:
        reached = _try(cluster, deadline)
        if reached is not None:
            return reached
        if not may_start:
            raise StoreUnavailable("This host has no object store of this cluster.")
        if time.monotonic() > deadline:
            raise StoreUnavailable("The object store of this host cannot be started.")
        _start(cluster, deadline)


def _try(cluster: bytes, deadline: float) -> Reached | None:
    """None if no store listens, or if it is ending."""
    try:
        stream = StreamConnection.connect(socket_name(cluster))
    except OSError:
        return None
    try:
        if not is_same_user(stream.plain_socket):
            raise StoreUnavailable("A process of another user listens in place of the object store of this cluster.")
        handshake = handshake_with(cluster)
        hello = make_hello(Role.WORK, new_session(), features=(DIRECTORY_FEATURE, PLACE_MANY_FEATURE))
        releases = _say_hello(stream, handshake.begin(hello))
        answer = _first(stream, deadline)
        while isinstance(answer, Challenge) and (proved := handshake.answer(answer)) is not None:
            stream.send(encode(Envelope(proved)))
            answer = _first(stream, deadline)
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
    return None


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


def _start(cluster: bytes, deadline: float) -> None:
    """It listens, or lost to another, when the process started here has ended: what serves is that one's child, in a
    session of its own, so no process waits for it or ends it by ending."""
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
        if process.wait(max(0.1, deadline - time.monotonic())):
            raise StoreUnavailable("The object store of this host cannot be started: its process failed.")
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
