# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages as bytes of a stream, little-endian: u32 size of what follows, u16 number of frames, u32 length of each
frame, then the frames' bytes."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from scaler_protocol.wire cimport load32, store32

from scaler_protocol.messages import MESSAGE_LIMIT_BYTES as _MESSAGE_LIMIT_BYTES

SIZE_LIMIT_BYTES = 4 * _MESSAGE_LIMIT_BYTES

cdef enum:
    PREFIX = 6  # bytes: size and number of frames
    FRAME_COUNT_LIMIT = 64

cdef uint64_t _size_limit = SIZE_LIMIT_BYTES


cpdef bytes pack(object frames):
    cdef Py_ssize_t count = len(frames)
    cdef uint64_t size = 2 + 4 * count
    cdef uint8_t* lengths
    cdef uint8_t* place
    cdef bytes packed
    cdef list ready
    if not 0 < count <= FRAME_COUNT_LIMIT:
        raise ValueError(f"A message has 1 to {FRAME_COUNT_LIMIT} frames, not {count}.")
    ready = [frame if PyBytes_CheckExact(frame) else bytes(memoryview(frame)) for frame in frames]
    for frame in ready:
        size += PyBytes_GET_SIZE(frame)
    if size > _size_limit:
        raise ValueError(f"A message of {size} bytes is over the limit of {SIZE_LIMIT_BYTES}.")
    packed = PyBytes_FromStringAndSize(NULL, 4 + size)
    lengths = <uint8_t*> PyBytes_AS_STRING(packed)
    store32(lengths, <uint32_t> size)
    lengths[4] = count
    lengths[5] = 0
    lengths += PREFIX
    place = lengths + 4 * count
    for frame in ready:
        store32(lengths, PyBytes_GET_SIZE(frame))
        memcpy(place, PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
        lengths += 4
        place += PyBytes_GET_SIZE(frame)
    return packed


cdef class Incoming:
    def __cinit__(self):
        self._fresh = PyByteArray_FromStringAndSize(NULL, READ_SIZE)  # zeros would touch all of its memory
        self._pending = bytearray()
        self.limit_bytes = _size_limit

    cdef char* room(self) except NULL:
        """READ_SIZE bytes for what is read next, once ``take`` has returned None."""
        return <char*> self._fresh

    cdef int add(self, size_t count) except -1:
        """Note that this many bytes were read into the free memory."""
        self._start = 0
        self._end = count
        return 0

    cpdef list take(self):
        cdef list frames
        while not self.broken:
            frames = self.take_pending() if self._pending else self.take_fresh()
            if frames is None:
                return None
            if len(frames) > 1 or PyBytes_GET_SIZE(frames[0]):
                return frames
        return None

    cdef list take_fresh(self):
        cdef size_t used = 0
        cdef list frames
        cdef const uint8_t* data = <const uint8_t*> <char*> self._fresh
        if self._start == self._end:
            return None
        frames = self.parse(data + self._start, self._end - self._start, &used)
        if frames is None:
            self.keep()
        else:
            self._start += used
        return frames

    cdef list take_pending(self):
        """Messages that came in pieces: moved once more, so that the fresh ones need not be."""
        cdef size_t used = 0
        cdef list frames
        self.keep()
        frames = self.parse(<const uint8_t*> <char*> self._pending, len(self._pending), &used)
        if frames is not None:
            self._start = 0
            self.restore(used)
        return frames

    cdef int keep(self) except -1:
        if self._start < self._end:
            self._pending += memoryview(self._fresh)[self._start : self._end]
            self._start = self._end = 0
        return 0

    cdef int restore(self, size_t used) except -1:
        """Bytes after a message that arrived in pieces are fresh again, when there is room for them."""
        cdef size_t rest = len(self._pending) - used
        if rest <= READ_SIZE:
            memcpy(<char*> self._fresh, <char*> self._pending + used, rest)
            self._end = rest
            self._pending.clear()
        else:
            del self._pending[:used]
        return 0

    cdef list parse(self, const uint8_t* data, size_t available, size_t* used):
        """The message at ``data``; None: not all of it is there, or it is none."""
        cdef uint64_t size, total
        cdef uint32_t count, index, length
        cdef const uint8_t* place
        cdef list frames
        if available < PREFIX:
            return None
        size = load32(data)
        count = data[4] | <uint32_t> data[5] << 8
        total = 2 + 4 * <uint64_t> count
        if size > self.limit_bytes or count == 0 or count > FRAME_COUNT_LIMIT or size < total:
            return self.refuse()
        if available < 4 + size:
            return None
        for index in range(count):
            total += load32(data + PREFIX + 4 * index)
        if total != size:
            return self.refuse()
        frames = []
        place = data + PREFIX + 4 * count
        for index in range(count):
            length = load32(data + PREFIX + 4 * index)
            frames.append(PyBytes_FromStringAndSize(<const char*> place, length))
            place += length
        used[0] = 4 + size
        return frames

    cdef list refuse(self):
        """The received bytes are not a message of ours: the stream cannot be trusted any further."""
        self.broken = True
        self._start = self._end = 0
        self._pending.clear()
        return None
