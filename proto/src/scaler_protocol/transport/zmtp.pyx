# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""ZeroMQ's protocol over one stream socket. See zmtp.pyi.

A connection goes through: greeting (64 bytes each way), READY (each way), then frames. A frame is a byte of flags, its
length in 1 or 8 bytes, and its bytes, which are read right into the object that they become.

With keys, ``curve`` takes the commands in place of READY, and gives the cipher for all that follows. Then each frame,
and each command, travels inside a frame of its own, which contains its flags.
"""

import os
import select
import socket as plain_socket
import time
from collections import deque

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from scaler_protocol.transport.frame_cipher cimport FrameCipher
from scaler_protocol.transport.descriptors cimport (
    ADD,
    CHANGE,
    READABLE,
    REMOVE,
    WRITABLE,
    Part,
    receive_bytes,
    send_parts,
    unacknowledged_packets,
    watch,
)

from scaler_protocol.transport.frame_cipher import CurveError
from scaler_protocol.messages import HELLO_LIMIT_BYTES as _HELLO_LIMIT_BYTES
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES as _MESSAGE_LIMIT_BYTES

cdef enum:
    MORE = 1  # flags of a frame
    LONG = 2
    COMMAND = 4
    SEALED_COMMAND = 2  # flags inside a sealed frame, where MORE is 1
    SEALED_EXTRA = 33  # bytes that sealing adds to a frame
    GREETING_SIZE = 64
    FRAME_COUNT_LIMIT = 64
    COMMAND_LIMIT = 4096
    PING_CONTEXT_LIMIT = 16
    READ_SIZE = 64 * 1024
    WAITING_PIECE = 64 * 1024  # short messages that wait are written together
    SEND_BUFFER = 1024 * 1024  # asked of the kernel, which gives what it allows
    PULLS_LIMIT = 8  # of a limited connection, in one go: others wait meanwhile
    LIMITED_WAITING = 16 * 1024

_SIZE_LIMIT_BYTES = 4 * _MESSAGE_LIMIT_BYTES
cdef uint64_t _hello_limit = _HELLO_LIMIT_BYTES

WAITING_LIMIT_BYTES = 256 * 1024 * 1024
SKIPPED_LIMIT_BYTES = 4 * _MESSAGE_LIMIT_BYTES
_PING = b"\x04PING" + (20).to_bytes(2, "big")  # good for two seconds

_COUNTERPARTS = {
    "DEALER": (b"ROUTER",),
    "ROUTER": (b"DEALER",),
    "PUB": (b"SUB", b"XSUB"),
    "SUB": (b"PUB", b"XPUB"),
}
_SUBSCRIPTIONS = {b"SUBSCRIBE": b"\x01", b"CANCEL": b"\x00"}  # a command, and how it begins as a message


_LIVENESS = b"X-Scaler-Liveness"  # a property of READY
_BY_KERNEL = b"kernel"


def _greeting(curve):
    mechanism = b"NULL" if curve is None else b"CURVE"
    is_server = curve is not None and curve.is_server
    start = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + mechanism.ljust(20, b"\0")
    return (start + bytes((is_server,))).ljust(GREETING_SIZE, b"\0")


def _properties(kind, identity, is_far):
    """Return the properties that READY states."""
    properties = ((b"Socket-Type", kind.encode()), (b"Identity", identity))
    if is_far:
        properties += ((_LIVENESS, _BY_KERNEL),)
    return b"".join(bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value for name, value in properties)


def _framed(message):
    """A message of one frame."""
    if len(message) < 256:
        return bytes((0, len(message))) + message
    return bytes((LONG,)) + len(message).to_bytes(8, "big") + message


cdef inline Py_ssize_t put_head(uint8_t* at, uint8_t flags, uint64_t length) noexcept nogil:
    """The bytes written: 2 or 9."""
    cdef int index
    if length < 256:
        at[0] = flags
        at[1] = <uint8_t> length
        return 2
    at[0] = flags | LONG
    for index in range(8):
        at[1 + index] = <uint8_t> (length >> (56 - 8 * index))
    return 9


cdef class ZmtpConnection:
    def __init__(
        self,
        connected,
        kind,
        identity=b"",
        message_limit_bytes=0,
        waiting_limit_bytes=0,
        is_limited=False,
        is_far=False,
        curve=None,
    ):
        connected.setblocking(False)
        self.socket = connected
        self.fd = connected.fileno()
        self.process = os.getpid()
        self.epoll = -1
        self.identity = b""
        self.messages = []
        self.frames = []
        self.waiting = deque()
        self.full_waiting_limit = waiting_limit_bytes or WAITING_LIMIT_BYTES
        self.size_limit = message_limit_bytes or _SIZE_LIMIT_BYTES
        self.is_publisher = kind == "PUB"
        self.is_limited = True
        self.waiting_limit = LIMITED_WAITING
        if not is_limited:
            self.lift_limits()
        self.counterparts = _COUNTERPARTS[kind]
        self.curve = curve
        self.user = b""
        self.own_greeting = _greeting(curve)
        self.waiting.append(bytearray(self.own_greeting))
        self.waiting_bytes = GREETING_SIZE
        self.begin(_properties(kind, identity, is_far))
        self.flush()

    cdef int begin(self, bytes properties) except -1:
        """Send the first command, if it is for this end to send it."""
        command = b"\x05READY" + properties if self.curve is None else self.curve.begin(properties)
        if command:
            self.write((command,), COMMAND)
        return 0

    def lift_limits(self):
        self.is_limited = False
        self.waiting_limit = self.full_waiting_limit
        if self.socket.family == plain_socket.AF_UNIX:  # tcp finds its own size
            self.socket.setsockopt(plain_socket.SOL_SOCKET, plain_socket.SO_SNDBUF, SEND_BUFFER)

    def stop_watching(self):
        if self.epoll >= 0:
            watch(self.epoll, REMOVE, self.fd, 0)
            self.epoll = -1

    def watch_in(self, int epoll):
        self.stop_watching()
        if watch(epoll, ADD, self.fd, READABLE | (WRITABLE if self.waiting_bytes else 0)) < 0:
            raise OSError("This process cannot watch more descriptors.")
        self.epoll = epoll

    cdef void watch_again(self) noexcept:
        """Note that the events to watch for have changed."""
        if self.epoll >= 0:
            watch(self.epoll, CHANGE, self.fd, READABLE | (WRITABLE if self.waiting_bytes else 0))

    cdef void end(self) noexcept:
        self.has_ended = True

    cdef int fail(self) except -1:
        """End it from here. Its descriptor tells so to all who watch it, at both ends."""
        self.end()
        if self.socket is not None:
            try:
                self.socket.shutdown(plain_socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended
        return self.cut()

    def hang_up(self):
        self.fail()

    def name_unless_named(self):
        if not self.identity:
            self.identity = b"\0" + os.urandom(4)

    def ping(self):
        if self.is_ready and not self.is_cut and self.greeting[11] >= 1:
            self.write((_PING,), COMMAND)
            return True
        return False

    @property
    def was_answered(self):
        return self.greeting_size > 0

    def take_sign_of_life(self):
        cdef uint8_t byte
        cdef bint was_heard = self.was_heard
        self.was_heard = False
        return was_heard or receive_bytes(self.fd, &byte, 1, True) > 0

    cdef bint is_acknowledged(self) noexcept:
        """The other end's kernel has all that was sent to it."""
        if self.may_lack_acknowledgements:
            self.may_lack_acknowledgements = unacknowledged_packets(self.fd) != 0
        return not self.may_lack_acknowledgements

    # ---- what comes ----------------------------------------------------------------------------------------------

    def look(self):
        cdef uint8_t byte
        if self.waiting_bytes:
            self.flush()
        while not self.is_ready and not self.has_ended and self.pull():
            pass
        self.is_drained = False
        if self.has_ended or self.taken < len(self.messages):
            return
        if receive_bytes(self.fd, &byte, 1, True) in (0, -2):
            self.end()

    def receive(self):
        if not self.is_ready:
            return None
        if self.waiting_bytes:
            self.flush()
        return self.next_message()

    def read(self):
        cdef list messages = []
        cdef bint came
        if self.waiting_bytes:
            self.flush()
        came = not self.has_ended and self.pull()
        while self.taken < len(self.messages):
            messages.append(self.next_message())
        self.is_drained = False
        return messages if came else None

    cdef list next_message(self):
        cdef list message
        cdef int pulls = 0
        while self.taken == len(self.messages):
            if self.is_drained:
                self.is_drained = False
                return None
            pulls += 1
            if self.has_ended or (self.is_limited and pulls > PULLS_LIMIT) or not self.pull():
                return None
        message = self.messages[self.taken]
        self.taken += 1
        if self.taken == len(self.messages):
            self.messages.clear()
            self.taken = 0
        return message

    cdef bint pull(self) except -1:
        """Read once. Whether anything came."""
        cdef uint8_t room[READ_SIZE]
        cdef Py_ssize_t size = self.wanted()
        cdef int64_t count
        try:
            if self.body is not None and self.length - self.filled >= size:
                size = self.length - self.filled
                count = receive_bytes(self.fd, PyBytes_AS_STRING(self.body) + self.filled, size, False)
                if count > 0:
                    self.filled += count
                    if self.filled == self.length:
                        self.end_frame()
            else:
                count = receive_bytes(self.fd, room, size, False)
                if count > 0:
                    self.feed(room, count)
        except BaseException:  # for lack of memory, or of a signal handler: bytes are lost, and nothing can follow them
            self.fail()
            raise
        self.is_drained = 0 < count < size and not self.is_limited
        if count == 0 or count == -2:
            self.end()
        elif count > 0:
            self.was_heard = True
        return count > 0

    cdef Py_ssize_t wanted(self):
        """Return how much to read at once. Until both are ready no more than belongs to the handshake: who looks at
        that is not the one who waits for messages. While it is limited, no more than belongs to one message."""
        if self.is_ready and not self.is_limited:
            return READ_SIZE
        if self.to_skip:
            return min(self.to_skip, READ_SIZE)
        if self.greeting_size < GREETING_SIZE:
            return GREETING_SIZE - self.greeting_size
        if self.body is not None:
            return self.length - self.filled
        return (9 if self.head_size and self.head[0] & LONG else 2) - self.head_size

    cdef int feed(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t used = 0
        cdef Py_ssize_t part
        while used < size and not self.has_ended:
            if self.greeting_size < GREETING_SIZE:
                part = min(GREETING_SIZE - self.greeting_size, size - used)
                memcpy(&self.greeting[self.greeting_size], data + used, part)
                self.greeting_size += part
                used += part
                self.check_greeting()
            elif self.to_skip:
                part = min(self.to_skip, size - used)
                self.to_skip -= part
                used += part
                if not self.to_skip:
                    self.end_skipped_frame()
            elif self.body is None:
                self.head[self.head_size] = data[used]
                self.head_size += 1
                used += 1
                if self.head_size == (9 if self.head[0] & LONG else 2):
                    self.begin_frame()
            else:
                part = min(self.length - self.filled, size - used)
                memcpy(PyBytes_AS_STRING(self.body) + self.filled, data + used, part)
                self.filled += part
                used += part
                if self.filled == self.length:
                    self.end_frame()
        return 0

    cdef int check_greeting(self) except -1:
        """Check the greeting as soon as enough of it has arrived to see that it is invalid."""
        cdef bytes greeting = PyBytes_FromStringAndSize(<char*> self.greeting, self.greeting_size)
        if greeting[0] != 0xFF or (len(greeting) >= 10 and not greeting[9] & 1) or (len(greeting) > 10 and greeting[10] < 3):
            self.fail()
        elif len(greeting) == GREETING_SIZE and greeting[12:32] != self.own_greeting[12:32]:
            self.fail()
        return 0

    cdef int begin_frame(self) except -1:
        cdef uint8_t flags = self.head[0]
        cdef uint64_t length = self.head[1]
        cdef uint64_t limit
        cdef uint64_t extra = SEALED_EXTRA if self.cipher is not None else 0
        cdef int index
        if flags & LONG:
            length = 0
            for index in range(8):
                length = length << 8 | self.head[1 + index]
        limit = COMMAND_LIMIT if flags & COMMAND else self.size_limit - self.size + extra
        if flags & ~(MORE | LONG | COMMAND) or flags & (MORE | COMMAND) == (MORE | COMMAND) or length > limit:
            self.fail()
        elif self.cipher is not None and flags & (MORE | COMMAND):  # nothing is said outside sealed frames
            self.fail()
        elif not flags & COMMAND and (not self.is_ready or len(self.frames) == FRAME_COUNT_LIMIT):
            self.fail()
        elif not flags & COMMAND and self.is_limited and self.cipher is not None and length > _hello_limit + extra:
            self.fail()  # whether it is the last one of its message could be read only after all of it has come
        elif not flags & COMMAND and self.is_limited and self.cipher is None and (
            self.is_skipping or flags & MORE or length > _hello_limit
        ):
            self.skip_frame(length)
        else:
            self.body = PyBytes_FromStringAndSize(NULL, length)
            self.length = length
            self.filled = 0
            if length == 0:
                self.end_frame()
        return 0

    cdef int skip_frame(self, uint64_t length) except -1:
        """Skip a frame of a message that is not a Hello: its bytes are dropped as they arrive."""
        self.to_skip = length
        if not self.note_skipped(length + self.head_size):
            return 0
        if not length:
            self.end_skipped_frame()
        return 0

    cdef bint note_skipped(self, uint64_t size) except -1:
        """False: it was too much, and this is the end."""
        self.is_skipping = True
        self.skipped += size
        if self.skipped > SKIPPED_LIMIT_BYTES:
            self.fail()
            return False
        return True

    cdef int end_skipped_frame(self) except -1:
        self.head_size = 0
        if not self.head[0] & MORE:
            self.is_skipping = False
            self.messages.append([])
        return 0

    cdef int end_frame(self) except -1:
        cdef bytes body = self.body
        self.body = None
        self.head_size = 0
        if self.head[0] & COMMAND:
            return self.on_command(body)
        if self.cipher is not None:
            return self.open_frame(body)
        self.frames.append(body)
        self.size += self.length
        if not self.head[0] & MORE:
            self.end_message()
        return 0

    cdef int open_frame(self, bytes sealed) except -1:
        cdef bytes content
        cdef uint8_t flags
        try:
            content = self.cipher.open(sealed)
        except CurveError:
            return self.fail()
        flags = content[0]
        if flags & SEALED_COMMAND:
            return self.fail() if len(content) > COMMAND_LIMIT or flags & MORE else self.on_command(content[1:])
        if self.is_limited and (self.is_skipping or flags & MORE):
            return self.skip_opened_frame(flags, len(sealed))
        self.frames.append(content[1:])
        self.size += len(content) - 1
        if not flags & MORE:
            self.end_message()
        return 0

    cdef int skip_opened_frame(self, uint8_t flags, uint64_t size) except -1:
        if self.note_skipped(size) and not flags & MORE:
            self.is_skipping = False
            self.messages.append([])
        return 0

    cdef int end_message(self) except -1:
        if len(self.frames) > 1 or self.size:
            self.messages.append(self.frames)
        self.frames = []
        self.size = 0
        return 0

    cdef int on_command(self, bytes command) except -1:
        cdef Py_ssize_t start = 1 + (command[0] if command else 0)
        cdef bytes name = command[1:start]
        if not self.is_ready and self.curve is not None:
            return self.on_handshake(command)
        if not self.is_ready and name == b"READY":
            return self.on_properties(command, start)
        if not self.is_ready or name in (b"READY", b"ERROR"):
            return self.fail()
        if name == b"PING":
            if len(command) > start + 2 + PING_CONTEXT_LIMIT:
                return self.fail()
            self.write((b"\x04PONG" + command[start + 2 :],), COMMAND)
        elif self.is_publisher and name in _SUBSCRIPTIONS:
            self.messages.append([_SUBSCRIPTIONS[name] + command[start:]])
        return 0

    cdef int on_handshake(self, bytes command) except -1:
        """A command of CURVE."""
        try:
            step = self.curve.on_command(command)
        except CurveError:
            return self.fail()
        if step.answer:
            self.write((step.answer,), COMMAND)
        if step.cipher is not None:
            self.user = self.curve.user
            self.cipher = step.cipher
            return self.on_properties(step.properties, 0)
        self.was_refused = step.is_refused
        return self.fail() if not step.answer or step.is_refused else 0

    cdef int on_properties(self, bytes command, Py_ssize_t start) except -1:
        cdef dict properties = {}
        cdef Py_ssize_t name_end, value_end
        while start < len(command):
            name_end = start + 1 + command[start]
            value_end = name_end + 4 + int.from_bytes(command[name_end : name_end + 4], "big")
            if value_end > len(command) or name_end + 4 > len(command):
                return self.fail()
            properties[command[start + 1 : name_end].lower()] = command[name_end + 4 : value_end]
            start = value_end
        if properties.get(b"socket-type") not in self.counterparts or len(properties.get(b"identity", b"")) > 255:
            return self.fail()
        self.identity = properties.get(b"identity", b"")
        self.has_far_process = properties.get(_LIVENESS.lower()) == _BY_KERNEL
        self.is_ready = True
        return 0

    # ---- what goes -----------------------------------------------------------------------------------------------

    def send(self, frames):
        if not self.is_ready or self.has_ended or self.is_cut:
            return False
        self.write(frames, 0)
        self.is_drained = True
        return not self.is_cut

    def send_together(self, messages):
        cdef bytes data
        cdef Part part
        if self.cipher is not None:
            messages = [self.cipher.seal(0, message) for message in messages]
        data = b"".join([_framed(message) for message in messages])
        if not self.is_ready or self.has_ended or self.is_cut:
            return False
        part.iov_base = PyBytes_AS_STRING(data)
        part.iov_len = len(data)
        self.write_parts(&part, 1, len(data))
        return not self.is_cut

    cdef int write(self, object frames, uint8_t flags) except -1:
        """Write one message, or one command."""
        if self.cipher is None:
            return self.write_frames(frames, flags, MORE)
        return self.write_frames(self.sealed(frames, flags), 0, 0)

    cdef list sealed(self, object frames, uint8_t flags):
        """One frame for each, with its flags inside."""
        cdef uint8_t inner = SEALED_COMMAND if flags & COMMAND else 0
        cdef Py_ssize_t last = len(frames) - 1
        return [self.cipher.seal(inner | (MORE if index < last else 0), frame) for index, frame in enumerate(frames)]

    cdef int write_frames(self, object frames, uint8_t flags, uint8_t more) except -1:
        """``flags``: of all frames; ``more``: of all but the last."""
        cdef Py_buffer views[FRAME_COUNT_LIMIT]
        cdef uint8_t heads[FRAME_COUNT_LIMIT][9]
        cdef Part parts[2 * FRAME_COUNT_LIMIT]
        cdef Py_ssize_t count = len(frames)
        cdef Py_ssize_t held = 0
        cdef Py_ssize_t index
        cdef uint64_t total = 0
        if not 0 < count <= FRAME_COUNT_LIMIT:
            raise ValueError(f"A message has 1 to {FRAME_COUNT_LIMIT} frames, not {count}.")
        try:
            for frame in frames:
                if held == count:
                    raise ValueError("The frames of a message were changed while it was sent.")
                PyObject_GetBuffer(frame, &views[held], PyBUF_SIMPLE)
                held += 1
            for index in range(held):
                parts[2 * index].iov_base = &heads[index][0]
                parts[2 * index].iov_len = put_head(
                    &heads[index][0], flags | (more if index < held - 1 else 0), views[index].len
                )
                parts[2 * index + 1].iov_base = views[index].buf
                parts[2 * index + 1].iov_len = views[index].len
                total += parts[2 * index].iov_len + parts[2 * index + 1].iov_len
            self.write_parts(parts, 2 * held, total)
        finally:
            for index in range(held):
                PyBuffer_Release(&views[index])
        return 0

    cdef int write_parts(self, Part* parts, Py_ssize_t count, uint64_t total) except -1:
        """Write what the kernel takes; keep a copy of the rest."""
        cdef int64_t sent = -1 if self.waiting_bytes else send_parts(self.fd, parts, count)
        self.may_lack_acknowledgements = True
        if sent == -2:
            return self.cut()
        if sent == total:
            return 0
        if self.waiting_bytes > self.waiting_limit:
            return self.fail()
        try:
            self.keep(parts, count, max(sent, 0), total)
        except MemoryError:  # nothing can follow the half of a message
            self.fail()
            raise
        return 0

    cdef int keep(self, Part* parts, Py_ssize_t count, uint64_t skip, uint64_t total) except -1:
        """Keep the bytes after the first ``skip``; they are written when the kernel accepts them."""
        cdef bint is_first = not self.waiting_bytes
        cdef bytearray piece = self.waiting[len(self.waiting) - 1] if self.waiting else None
        cdef Py_ssize_t place
        cdef uint64_t length
        cdef Py_ssize_t index
        if piece is None or PyByteArray_GET_SIZE(piece) >= WAITING_PIECE:
            piece = bytearray()
            self.waiting.append(piece)
        place = PyByteArray_GET_SIZE(piece)
        PyByteArray_Resize(piece, place + total - skip)
        self.waiting_bytes += total - skip
        for index in range(count):
            length = parts[index].iov_len
            if skip >= length:
                skip -= length
                continue
            memcpy(PyByteArray_AS_STRING(piece) + place, <char*> parts[index].iov_base + skip, length - skip)
            place += length - skip
            skip = 0
        if is_first:
            self.watch_again()
        return 0

    cdef int flush(self) except -1:
        """Write what waits, as far as the kernel takes it."""
        cdef Part part
        cdef int64_t sent
        cdef bytearray first
        while self.waiting:
            first = self.waiting[0]
            part.iov_base = PyByteArray_AS_STRING(first) + self.written
            part.iov_len = PyByteArray_GET_SIZE(first) - self.written
            sent = send_parts(self.fd, &part, 1)
            self.may_lack_acknowledgements = True
            if sent == -2:
                return self.cut()
            if sent == -1:
                return 0
            self.written += sent
            self.waiting_bytes -= sent
            if self.written < PyByteArray_GET_SIZE(first):
                return 0
            self.written = 0
            self.waiting.popleft()
        self.watch_again()
        return 0

    cdef int cut(self) except -1:
        """Nothing can be written any more. What the other end said before it went is still to be read."""
        self.is_cut = True
        self.waiting.clear()
        self.waiting_bytes = 0
        self.written = 0
        self.watch_again()
        return 0

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self, linger_milliseconds=0):
        if self.socket is None:
            return
        if os.getpid() == self.process:
            self._leave(linger_milliseconds / 1000)
        self.end()
        self.socket.close()
        self.socket = None
        self.waiting.clear()
        self.waiting_bytes = 0

    def _leave(self, seconds):
        """Another process that has inherited the descriptor does not hold the connection up."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        while self.waiting_bytes and time.monotonic() < deadline:
            poll.poll(1000 * max(0.0, deadline - time.monotonic()))
            self.flush()
        if self.epoll >= 0:
            watch(self.epoll, REMOVE, self.fd, 0)
        try:
            self.socket.shutdown(plain_socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended
