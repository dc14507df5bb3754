"""The shell of the store: its sockets, its memory files, its disk."""

from __future__ import annotations

import itertools
import logging
import os
import select
import socket
import struct
import time
import traceback
from typing import TYPE_CHECKING, Any

from scaler_protocol.codec import MalformedMessage, decode, decode_hello, encode
from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.ids import new_session
from scaler_protocol.messages import (
    HELLO_LIMIT_BYTES,
    Challenge,
    Envelope,
    Hello,
    ObjectChunk,
    ObjectMissing,
    RefusalReason,
    Refused,
    StoreSettings,
    StoreStatusRequest,
    Welcome,
)
from scaler_protocol.objects.admission import DIRECTORY_FEATURE, PLACE_MANY_FEATURE, StoreAdmission
from scaler_protocol.objects.arrival import BULK_LOST, CUT, GONE, OPENING, Arrival
from scaler_protocol.objects.bulk_frames import Bytes, Piece, peer_of
from scaler_protocol.objects.capacity import default_capacity_bytes
from scaler_protocol.objects.core.effects import (
    AskSource,
    CloseSegment,
    CloseSource,
    Effect,
    Load,
    MakeSegment,
    OpenSource,
    Publish,
    Punch,
    RemoveFile,
    SendPiece,
    Spill,
    StoreAnswer,
)
from scaler_protocol.objects.core.store import MalformedRequest, StoreCore
from scaler_protocol.objects.directory import Directory
from scaler_protocol.objects.memory_files import MemoryFiles
from scaler_protocol.objects.spilling import Disk
from scaler_protocol.objects.store_log import StoreLog
from scaler_protocol.transport.acceptor import ACCEPTED_AT_ONCE, Acceptor
from scaler_protocol.transport.pending_handshakes import PendingHandshakes
from scaler_protocol.transport.stream import SIZE_LIMIT_BYTES, StreamConnection

if TYPE_CHECKING:
    from scaler_protocol.objects.exchange import Exchange

START_SECONDS = 3.0
"""A store without a connection within this time exits."""

_RETRY_SECONDS = 0.05
"""After a turn that failed, the next one comes so soon: what it left undone may have no other occasion."""

_NO_MEMORY_TEXT = "it has no memory left. Raise what limits it (ulimit -v, a service or container)."
_RELEASES_BYTES = 64 * 1024
_DESCRIPTORS_LIMIT = 64
"""A peer sends one, with its Hello."""


class ObjectServer:
    def __init__(self, listening: socket.socket, log_tail: LogTail) -> None:
        self._acceptor = Acceptor(listening, "The object store of this host")
        self._pending_handshakes = PendingHandshakes()
        self._guard = TurnGuard("Main loop")
        self._why = ""  # a turn failed
        self._log = StoreLog(log_tail)
        self._disk_error = ""  # of the last attempt to write to disk
        self._store = new_session()
        self._admission = StoreAdmission("@" + listening.getsockname()[1:].decode())
        self._core = StoreCore(self._store, os.getpid(), default_capacity_bytes())
        self._files = MemoryFiles()
        self._directory = _make_directory()
        self._disk = Disk(self._files.fd)
        self._poll = select.epoll()
        self._poll.register(self._acceptor.fd, select.EPOLLIN)
        self._poll.register(self._disk.fd, select.EPOLLIN)
        self._exchange: Exchange | None = None
        self._exchange_fds: list[int] = []
        self._exchange_version = 0
        self._numbers = itertools.count(1)
        self._peers: dict[int, int] = {}  # by descriptor of their streams; descriptors are used again, numbers are not
        self._holders: dict[int, int] = {}  # the same, by that of the pipe on which they release pins
        self._streams: dict[int, StreamConnection] = {}  # by number
        self._welcomed: set[int] = set()
        self._writing: set[int] = set()
        self._started = time.monotonic()
        self._had_peers = False

    def run(self) -> None:
        """Run until the last peer is gone. A turn that fails is survived; when one after the other does, SystemExit."""
        logging.info(f"Started as process {os.getpid()}.")
        try:
            while not self._is_over():
                with self._guard:
                    self._take_turn()
                self._send_log()
        except SystemExit:
            self._say_why()
            raise
        self._disk.close()
        if self._exchange is not None:
            self._exchange.close()

    def _say_why(self) -> None:
        """The output of this process is not visible."""
        text = f"The object store of this host failed repeatedly and has ended: {self._why}"
        for stream in self._streams.values():
            stream.send(encode(Envelope(Refused(RefusalReason.OTHER, text))))

    def _send_log(self) -> None:
        taken = self._log.take(time.monotonic())
        if taken is None:
            return
        try:
            self._send(StoreAnswer(*taken))
        except Exception as error:
            self._end(taken[0], error)

    def _take_turn(self) -> None:
        try:
            self._turn(_RETRY_SECONDS if self._guard.failures else self._wait_seconds())
        except MemoryError:
            self._why = _NO_MEMORY_TEXT
            raise
        except Exception:
            self._why = " ".join(traceback.format_exc(limit=-3).split())
            raise

    def _is_over(self) -> bool:
        if self._streams:
            return False
        if self._had_peers:
            return not self._accept()  # one may have come at the last moment
        return time.monotonic() > self._started + START_SECONDS

    def _wait_seconds(self) -> float | None:
        deadline = self._pending_handshakes.next_deadline()
        deadline = _sooner(deadline, self._core.next_deadline())
        deadline = _sooner(deadline, self._log.next_deadline())
        if self._exchange is not None:
            deadline = _sooner(deadline, self._exchange.next_deadline())
        if not self._had_peers:
            deadline = self._started + START_SECONDS
        return None if deadline is None else max(0.0, deadline - time.monotonic()) + 0.001

    def _turn(self, seconds: float | None) -> None:
        self._read(self._poll.poll(seconds))
        self._settle_doubts()
        deadline = self._core.next_deadline()
        if deadline is not None and deadline <= time.monotonic():
            self._core.on_deadline(time.monotonic())
        self._carry_out()
        for number in self._pending_handshakes.late(time.monotonic()):
            self._lose(number)
        if self._exchange is not None:
            self._serve_exchange(self._exchange)

    def _settle_doubts(self) -> None:
        if self._core.has_doubts:
            self._read(self._poll.poll(0))
            self._core.settle(time.monotonic())

    def _read(self, events: list[tuple[int, int]]) -> None:
        """Read authenticated connections first; of the others, as many as take no time worth mentioning."""
        arriving, has_more = [], False
        for fd, event in events:
            if fd == self._acceptor.fd:
                has_more = True
            elif fd == self._disk.fd:
                self._take_from_disk()
            elif fd in self._holders:
                self._read_releases(fd)
            elif self._peers.get(fd) in self._welcomed:
                self._charge(self._peers[fd], event)
            else:
                arriving.append((fd, event))
        for fd, event in arriving[:ACCEPTED_AT_ONCE]:
            if fd in self._peers:
                self._charge(self._peers[fd], event)
        if has_more:
            self._accept()

    def _charge(self, number: int, event: int) -> None:
        """Whatever goes wrong while a peer is served costs that peer alone."""
        try:
            if event & select.EPOLLOUT:
                self._flush(number)
            if event & ~select.EPOLLOUT:
                self._read_peer(number)
        except Exception as error:
            self._end(number, error)

    def _end(self, number: int, error: Exception) -> None:
        if isinstance(error, MemoryError):
            self._guard.failed("Disconnecting a peer.", error)
        else:
            logging.warning(f"Disconnecting a peer: {error}", exc_info=error)
        if number in self._streams:
            self._lose(number)

    # ---- peers ---------------------------------------------------------------------------------------------------

    def _accept(self) -> bool:
        """Return whether a peer has connected."""
        came = False
        for connected in self._acceptor.accept():
            stream = StreamConnection(connected)
            stream.limit_bytes = HELLO_LIMIT_BYTES
            number = self._peers[stream.fd] = next(self._numbers)
            self._streams[number] = stream
            self._poll.register(stream.fd, select.EPOLLIN)
            self._had_peers = came = True
            for each in self._pending_handshakes.add(number, time.monotonic()):
                self._lose(each)
        return came

    def _read_peer(self, number: int) -> None:
        stream = self._streams[number]
        try:
            while (frames := stream.receive()) is not None:
                if number in self._welcomed:
                    self._on_body(number, decode(frames).body)
                else:
                    self._on_hello(number, decode_hello(frames))
        except (MalformedMessage, MalformedRequest) as error:
            logging.warning(f"Disconnecting a peer: {error}")
            self._lose(number)
            return
        if stream.eof or len(stream.received_fds) > _DESCRIPTORS_LIMIT:
            self._lose(number)

    def _on_body(self, number: int, body: Any) -> None:
        if isinstance(body, StoreStatusRequest):
            self._disk.measure()
            self._core.on_disk_measured(*self._disk.space)
        self._core.on_message(number, body, time.monotonic())
        if isinstance(body, StoreSettings):
            self._on_settings(number, body)

    def _on_settings(self, number: int, settings: StoreSettings) -> None:
        if settings.receives_log:
            self._log.add_receiver(number)
        if settings.spill_directory:
            self._disk.use_directory(settings.spill_directory)
        if settings.host and not self._core.endpoint:
            try:
                self._core.endpoint = self._exchanging().listen(settings.host)
            except (OSError, ValueError) as error:
                logging.warning(f"Other hosts cannot fetch objects from here: {error}")

    def _on_hello(self, number: int, hello: Hello | None) -> None:
        stream = self._streams[number]
        wanted = () if hello is None else hello.features
        directory = self._directory if DIRECTORY_FEATURE in wanted else None
        features: tuple[str, ...] = () if directory is None else (DIRECTORY_FEATURE,)
        features += (PLACE_MANY_FEATURE,) if PLACE_MANY_FEATURE in wanted else ()
        welcome = Welcome(self._store, 0, number=hello.number if hello is not None else 0, features=features)
        answer = self._admission.answer(hello, welcome, time.monotonic())
        fds = (directory.fd,) if directory is not None and isinstance(answer, Welcome) else ()
        stream.send(encode(Envelope(answer)), fds)
        if isinstance(answer, Refused):
            raise MalformedRequest(answer.text)
        if isinstance(answer, Challenge):
            return
        self._pending_handshakes.remove(number)
        stream.limit_bytes = SIZE_LIMIT_BYTES
        self._welcomed.add(number)
        self._core.on_connected(number)
        if stream.received_fds:
            pipe = stream.received_fds.popleft()
            os.set_blocking(pipe, False)
            self._holders[pipe] = number
            self._poll.register(pipe, select.EPOLLIN)

    def _read_releases(self, pipe: int) -> None:
        """Numbers of pins, 8 bytes each; the end of the pipe releases all that are left."""
        number = self._holders[pipe]
        try:
            while data := os.read(pipe, _RELEASES_BYTES):
                pins = struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])
                self._core.on_released(number, pins, time.monotonic())
        except BlockingIOError:
            return
        except Exception as error:
            logging.warning(f"Stopped reading from a peer: {error}")
        self._poll.unregister(pipe)
        os.close(pipe)
        del self._holders[pipe]
        self._end_pins(number)

    def _end_pins(self, number: int) -> None:
        """End the pins of a peer when both its stream, on which it may still get some, and its pipe have ended."""
        if number not in self._streams and number not in self._holders.values():
            self._core.on_pins_lost(number, time.monotonic())

    def _lose(self, number: int) -> None:
        stream = self._streams.pop(number)
        self._poll.unregister(stream.fd)
        del self._peers[stream.fd]
        stream.close()
        self._writing.discard(number)
        self._log.remove_receiver(number)
        self._pending_handshakes.remove(number)
        if number not in self._welcomed:
            return
        self._welcomed.discard(number)
        self._core.on_peer_lost(number, time.monotonic())
        self._end_pins(number)

    def _flush(self, number: int) -> None:
        stream = self._streams[number]
        if stream.flush():
            self._writing.discard(number)
            self._poll.modify(stream.fd, select.EPOLLIN)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        self._update_directory()
        while effects := self._core.take_effects():
            self._update_directory()
            for effect in effects:
                try:
                    self._do(effect)
                except Exception as error:  # the others are still carried out
                    self._not_done(effect, error)

    def _update_directory(self) -> None:
        """Before any byte is written into memory that is free now, here or by a peer that hears of it."""
        for change in self._core.take_directory_changes():
            if self._directory is None:
                continue
            if isinstance(change, Publish):
                extent = change.extent
                self._directory.publish(*change.key, extent.segment, extent.offset, change.size)
            else:
                self._directory.withdraw(*change.key)

    def _not_done(self, effect: Effect, error: Exception) -> None:
        """The peer that waits for the effect gets an answer, or its connection ends."""
        if isinstance(effect, MakeSegment):
            reason = getattr(error, "strerror", None) or str(error)
            self._core.on_segment_failed(effect.number, reason, time.monotonic())
        elif isinstance(effect, (StoreAnswer, SendPiece)) and effect.peer > 0:
            self._end(effect.peer, error)
        elif isinstance(effect, (StoreAnswer, SendPiece)):
            self._forget_store(effect.peer)
        else:
            self._guard.failed(f"Cannot carry out {type(effect).__name__}.", error)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, StoreAnswer):
            self._send(effect)
        elif isinstance(effect, MakeSegment):
            self._files.make(effect.number, effect.size)
        elif isinstance(effect, CloseSegment):
            self._files.close(effect.number)
        elif isinstance(effect, Punch):
            self._files.punch(effect.extent)
        elif isinstance(effect, Spill):
            self._disk.spill(effect.number, effect.extent, effect.size)
        elif isinstance(effect, Load):
            if effect.extent.segment in self._files:  # otherwise its reader has been refused
                self._disk.load(effect.number, effect.extent, effect.size)
        elif isinstance(effect, RemoveFile):
            self._disk.remove(effect.number)
        else:
            self._do_between_stores(effect)

    def _send(self, answer: StoreAnswer) -> None:
        if answer.peer < 0:
            self._answer_store(answer.peer, answer.body)
            return
        stream = self._streams.get(answer.peer)
        if stream is None or (answer.segment is not None and answer.segment not in self._files):
            return  # it has gone, or was refused
        fds = () if answer.segment is None else (self._files.fd(answer.segment),)
        stream.send(encode(Envelope(answer.body)), fds)
        if stream.wants_write and answer.peer not in self._writing:
            self._writing.add(answer.peer)
            self._poll.modify(stream.fd, select.EPOLLIN | select.EPOLLOUT)

    def _take_from_disk(self) -> None:
        now = time.monotonic()
        for done in self._disk.take_done():
            if done.is_spill:
                self._note_disk(done.error)
                self._core.on_spilled(done.number, done.error, now)
            else:
                self._core.on_loaded(done.number, done.error, now)

    def _note_disk(self, error: str) -> None:
        """Log when objects can no longer be written to disk, and when they can be again."""
        if error and error != self._disk_error:
            logging.warning(f"Cannot write objects to disk: {error}. New objects are refused when its memory is full.")
        elif self._disk_error and not error:
            logging.info("Objects can be written to disk again.")
        self._disk_error = error

    # ---- other stores --------------------------------------------------------------------------------------------

    def _exchanging(self) -> Exchange:
        if self._exchange is None:
            from scaler_protocol.objects.exchange import Exchange  # most stores have no others

            self._exchange = Exchange(self._store, self)
        return self._exchange

    def _do_between_stores(self, effect: Effect) -> None:
        if isinstance(effect, OpenSource):
            self._open_source(effect.endpoint)
        elif isinstance(effect, CloseSource):
            self._exchanging().close_source(effect.endpoint)
        elif isinstance(effect, AskSource):
            self._exchanging().ask(effect.endpoint, effect.body)
        elif isinstance(effect, SendPiece):
            self._send_piece(effect)

    def _send_piece(self, effect: SendPiece) -> None:
        fd, place = self._files.fd(effect.extent.segment), effect.extent.offset + effect.offset
        if effect.direct:
            piece = Piece(effect.key, effect.size, effect.offset, effect.length)
            view = self._files.view(effect.extent)[effect.offset : effect.offset + effect.length]
            if not self._exchanging().send_piece(effect.peer, piece, Bytes(fd, place, view)):
                self._core.on_bulk_lost(effect.peer, time.monotonic())
            return
        data = os.pread(fd, effect.length, place)
        self._answer_store(effect.peer, ObjectChunk(effect.key, effect.size, effect.offset, data))

    def _open_source(self, endpoint: str) -> None:
        try:
            self._exchanging().open(endpoint)
        except (OSError, ValueError) as error:
            logging.warning(f"Cannot fetch objects from another store: {error}")
            self._core.on_source_lost(endpoint, time.monotonic())

    def _answer_store(self, peer: int, body: Any) -> None:
        """One that is gone is noticed when its connection is."""
        self._exchanging().answer(peer, body)

    def _serve_exchange(self, exchange: Exchange) -> None:
        """Sending may hide that something has come, so this goes on until nothing has."""
        arrivals = exchange.move_bulk()
        self._carry_out()
        while arrivals := arrivals + exchange.receive():
            for arrival in arrivals:
                try:
                    self._take_arrival(arrival)
                except Exception as error:
                    self._distrust(arrival, error)
            arrivals = []
            self._settle_doubts()
            self._carry_out()
        self._watch(exchange)

    def _watch(self, exchange: Exchange) -> None:
        """Descriptors are used again, so after a change all are registered again."""
        if self._exchange_version == exchange.version:
            return
        self._exchange_version = exchange.version
        for fd in self._exchange_fds:
            try:
                self._poll.unregister(fd)
            except OSError:
                pass  # it was closed, which did it
        self._exchange_fds = exchange.fds()
        for fd in self._exchange_fds:
            self._poll.register(fd, select.EPOLLIN)

    def _take_arrival(self, arrival: Arrival) -> None:
        now = time.monotonic()
        if arrival.peer:
            self._take_from_store(arrival.peer, arrival.body, now)
        elif isinstance(arrival.body, Welcome):
            self._core.on_source_welcomed(arrival.endpoint, arrival.body.session, now)
        elif isinstance(arrival.body, ObjectMissing):
            self._core.on_source_missing(arrival.endpoint, arrival.body, now)
        elif isinstance(arrival.body, ObjectChunk):
            self._take_chunk(arrival.endpoint, arrival.body, now)
        elif arrival.body == OPENING:
            self._core.on_source_opening(arrival.endpoint, now)
        elif arrival.body == CUT:
            self._core.on_source_cut(arrival.endpoint, now)
        else:
            self._core.on_source_lost(arrival.endpoint, now)

    def _distrust(self, arrival: Arrival, error: Exception) -> None:
        """Another store said what cannot be: it is not heard any more, or not asked."""
        logging.warning(f"Stopped reading from another object store: {error}", exc_info=error)
        if arrival.peer:
            self._forget_store(arrival.peer)
        else:
            self._core.on_source_lost(arrival.endpoint, time.monotonic())

    def _forget_store(self, peer: int) -> None:
        self._exchanging().forget(peer)
        if self._core.has_peer(peer):
            self._core.on_peer_lost(peer, time.monotonic())
            self._core.on_pins_lost(peer, time.monotonic())

    def _take_from_store(self, peer: int, body: Any, now: float) -> None:
        if body == GONE:
            self._forget_store(peer)
        elif isinstance(body, Hello):
            self._core.on_connected(peer)
        elif not self._core.has_peer(peer):
            return
        elif body == BULK_LOST:
            self._core.on_bulk_lost(peer, now)
        else:
            self._core.on_message(peer, body, now)

    # ---- the bytes of bulk connections -----------------------------------------------------------------------------

    def target(self, label: str, piece: Piece, done: int) -> memoryview | None:
        extent = self._core.bulk_extent(label, piece.key, piece.size, piece.offset + done)
        self._update_directory()
        if extent is None:
            return None
        try:
            if not done:
                self._files.prepare(extent, piece.offset, piece.length)
            return self._files.view(extent)[piece.offset + done : piece.offset + piece.length]
        except OSError:
            self._core.on_piece_not_written(piece.key, time.monotonic())
            return None

    def received(self, label: str, piece: Piece, count: int) -> None:
        now = time.monotonic()
        self._core.on_bulk_received(label, piece.key, count, now)
        self._core.on_piece_written(piece.key, now)

    def sent(self, label: str, piece: Piece) -> None:
        self._core.on_piece_sent(peer_of(label), piece.key, time.monotonic())

    def _take_chunk(self, endpoint: str, chunk: ObjectChunk, now: float) -> None:
        extent = self._core.on_source_chunk(endpoint, chunk, now)
        self._update_directory()
        if extent is None:
            return
        try:
            self._files.write(extent, chunk.offset, chunk.data)
        except OSError:
            self._core.on_piece_not_written(chunk.key, now)
        else:
            self._core.on_piece_written(chunk.key, now)


def _make_directory() -> Directory | None:
    """Create the directory. Without one, peers ask for every object."""
    try:
        return Directory()
    except OSError as error:
        logging.warning(f"Cannot create the directory of small objects: {error}. Peers read these more slowly.")
        return None


def _sooner(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)
