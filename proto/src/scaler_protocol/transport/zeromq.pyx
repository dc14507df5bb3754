# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Multipart messages in and out of a ZeroMQ socket, without a step of Python between their frames.

libzmq is called directly: the library that pyzmq has loaded, its functions found by name, so building this needs no
header of it. Every call has ZMQ_DONTWAIT, so the interpreter's lock is kept: giving it up costs more than the call.
A message is complete before its first frame is sent, so nothing can go wrong between two frames.
"""

import ctypes
from pathlib import Path

import zmq
from zmq.backend.cython import _zmq as _backend

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from scaler_protocol.transport.descriptors cimport coarse_seconds
from scaler_protocol.transport.zmtp cimport ZmtpConnection
from scaler_protocol.transport.zmtp_listener cimport ZmtpListener

cdef extern from *:
    """
    #if defined(__linux__)
    #include <errno.h>
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    #define THREADS_LIMIT 64

    typedef struct { pthread_mutex_t gate; pid_t ids[THREADS_LIMIT]; } ThreadTrial;
    typedef struct { ThreadTrial *trial; int number; } TriedThread;

    static void *wait_at_gate(void *argument) {
        TriedThread *self = argument;
        self->trial->ids[self->number] = (pid_t) syscall(SYS_gettid);
        pthread_mutex_lock(&self->trial->gate);
        pthread_mutex_unlock(&self->trial->gate);
        return NULL;
    }

    /* 0, or the number of the error of the thread that could not be started. All threads have ended, and the system
       counts them no more: that is a moment after pthread_join. */
    static int try_threads(int count) {
        ThreadTrial trial;
        TriedThread tried[THREADS_LIMIT];
        pthread_t threads[THREADS_LIMIT];
        sigset_t all, before;
        int started = 0, error = 0;
        count = count < THREADS_LIMIT ? count : THREADS_LIMIT;
        pthread_mutex_init(&trial.gate, NULL);
        pthread_mutex_lock(&trial.gate);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (; started < count; started++) {
            tried[started].trial = &trial;
            tried[started].number = started;
            error = pthread_create(&threads[started], NULL, wait_at_gate, &tried[started]);
            if (error)
                break;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_mutex_unlock(&trial.gate);
        for (int index = 0; index < started; index++) {
            pthread_join(threads[index], NULL);
            while (syscall(SYS_tgkill, getpid(), trial.ids[index], 0) == 0)
                sched_yield();
        }
        pthread_mutex_destroy(&trial.gate);
        return error;
    }
    #else
    static int try_threads(int count) { (void) count; return 0; }
    #endif
    """
    int try_threads(int count) nogil

cdef enum:
    DONTWAIT = 1
    SEND_MORE = 2
    FRAMES_ON_STACK = 4
    LOOK_SECONDS = 1
    INTERRUPTION_LIMIT = 100  # in a forked child, which must not be here, libzmq always answers EINTR


cdef struct Message:  # zmq_msg_t
    uint64_t words[8]


ctypedef int (*InitFunction)(Message*) noexcept nogil
ctypedef int (*InitSizeFunction)(Message*, size_t) noexcept nogil
ctypedef void* (*DataFunction)(Message*) noexcept nogil
ctypedef size_t (*SizeFunction)(const Message*) noexcept nogil
ctypedef int (*MoreFunction)(const Message*) noexcept nogil
ctypedef int (*CloseFunction)(Message*) noexcept nogil
ctypedef int (*MoveFunction)(Message*, void*, int) noexcept nogil
ctypedef int (*ErrorFunction)() noexcept nogil
ctypedef const char* (*PropertyFunction)(const Message*, const char*) noexcept nogil


def _library():
    """pyzmq's extension, whose dependency libzmq is searched with it; on Windows, the library next to the package."""
    extension = ctypes.CDLL(_backend.__file__)
    if hasattr(extension, "zmq_msg_recv"):
        return extension
    folder = Path(zmq.__file__).parent
    found = [*folder.glob("libzmq*"), *(folder.parent / "pyzmq.libs").glob("libzmq*")]
    return ctypes.CDLL(str(found[0]))


cdef size_t _address(object library, str name) except 0:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


_libzmq = _library()
cdef InitFunction message_init = <InitFunction> _address(_libzmq, "zmq_msg_init")
cdef InitSizeFunction message_init_size = <InitSizeFunction> _address(_libzmq, "zmq_msg_init_size")
cdef DataFunction message_data = <DataFunction> _address(_libzmq, "zmq_msg_data")
cdef SizeFunction message_size = <SizeFunction> _address(_libzmq, "zmq_msg_size")
cdef MoreFunction message_more = <MoreFunction> _address(_libzmq, "zmq_msg_more")
cdef CloseFunction message_close = <CloseFunction> _address(_libzmq, "zmq_msg_close")
cdef MoveFunction message_send = <MoveFunction> _address(_libzmq, "zmq_msg_send")
cdef MoveFunction message_receive = <MoveFunction> _address(_libzmq, "zmq_msg_recv")
cdef PropertyFunction message_property = <PropertyFunction> _address(_libzmq, "zmq_msg_gets")
cdef ErrorFunction error_number = <ErrorFunction> _address(_libzmq, "zmq_errno")

cdef int _EHOSTUNREACH = zmq.EHOSTUNREACH
cdef int _ENOTSOCK = zmq.ENOTSOCK
cdef int _ETERM = zmq.ETERM


def require_threads(count):
    if try_threads(count):
        raise RuntimeError("can't start new thread")


cdef int fail(int number) except -1:
    raise zmq.ContextTerminated(number) if number == _ETERM else zmq.ZMQError(number)


cdef int fill(Message* message, object frame) except -1:
    cdef Py_buffer view
    if PyBytes_CheckExact(frame):
        return fill_from(message, PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        return fill_from(message, <const char*> view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef inline int fill_from(Message* message, const char* data, size_t size) except -1:
    if message_init_size(message, size) != 0:
        raise MemoryError()
    memcpy(message_data(message), data, size)
    return 0


cdef inline int send_one(void* handle, Message* message, int flags) noexcept:
    """0, or the number of the error."""
    cdef int number = 0
    cdef int interruptions = 0
    while message_send(message, handle, flags) < 0:
        number = error_number()
        interruptions += 1
        if number != EINTR or interruptions > INTERRUPTION_LIMIT:
            return number
    return 0


cdef int send_all(void* handle, Message* messages, Py_ssize_t count) noexcept:
    """0, or the number of the error of the first frame that failed. When the connection ends between two frames,
    libzmq drops what follows until the last frame of the message: so that one is offered in any case, or the next
    message would be dropped in its place."""
    cdef int failure = 0
    cdef int number
    cdef Py_ssize_t index = 0
    for index in range(count):
        number = send_one(handle, &messages[index], DONTWAIT | (SEND_MORE if index < count - 1 else 0))
        if number != 0:
            message_close(&messages[index])
            failure = failure or number
            if index == 0:
                break
    for index in range(index + 1, count):
        message_close(&messages[index])
    return failure


cdef int send_frames(void* handle, object first, object frames) except -1:
    """0, EAGAIN or EHOSTUNREACH; other errors are raised. ``first``: a frame before the others, or None."""
    cdef Message on_stack[FRAMES_ON_STACK]
    cdef Message* messages = on_stack
    cdef Py_ssize_t before = first is not None
    cdef Py_ssize_t count = len(frames) + before
    cdef Py_ssize_t filled = 0
    cdef int number
    if count == before:
        raise ValueError("A message has at least one frame.")
    if count > FRAMES_ON_STACK:
        messages = <Message*> malloc(count * sizeof(Message))
        if messages == NULL:
            raise MemoryError()
    try:
        try:
            if before:
                fill(&messages[0], first)
                filled = 1
            for frame in frames:
                if filled == count:
                    raise ValueError("The frames of a message were changed while it was sent.")
                fill(&messages[filled], frame)
                filled += 1
        except BaseException:
            while filled:
                filled -= 1
                message_close(&messages[filled])
            raise
        number = send_all(handle, messages, filled)
    finally:
        if messages != on_stack:
            free(messages)
    if number != 0 and number != EAGAIN and number != _EHOSTUNREACH:
        fail(number)
    return number


cdef inline int receive_one(void* handle, Message* message) except -1:
    """0 or EAGAIN; other errors are raised."""
    cdef int number
    cdef int interruptions = 0
    while message_receive(message, handle, DONTWAIT) < 0:
        number = error_number()
        if number == EAGAIN:
            return EAGAIN
        interruptions += 1
        if number != EINTR or interruptions > INTERRUPTION_LIMIT:
            fail(number)
    return 0


cdef list receive_frames(void* handle, bint with_user=False):
    """The frames of one message; None: nothing waits. All frames of a message come at once. ``with_user``: one more
    after them, the user of the key that its connection showed."""
    cdef Message message
    cdef list frames
    cdef const char* user
    message_init(&message)
    try:
        if receive_one(handle, &message) == EAGAIN:
            return None
        frames = [PyBytes_FromStringAndSize(<char*> message_data(&message), message_size(&message))]
        while message_more(&message):
            if receive_one(handle, &message) == EAGAIN:
                break
            frames.append(PyBytes_FromStringAndSize(<char*> message_data(&message), message_size(&message)))
        if with_user:
            user = message_property(&message, b"User-Id")
            frames.append(b"" if user == NULL else <bytes> user)
        return frames
    finally:
        message_close(&message)


cdef class Socket:
    """The socket of pyzmq that this one speaks through. It is pyzmq's to close; after that nothing touches it."""

    cdef object socket
    cdef void* handle

    def attach(self, socket):
        self.socket = socket
        self.handle = <void*> <size_t> socket.underlying

    cdef void* live(self) except NULL:
        if self.handle == NULL or self.socket.closed:
            self.handle = NULL
            fail(_ENOTSOCK)
        return self.handle


cdef class DealerFrames(Socket):
    cdef readonly ZmtpConnection stream
    cdef double look_at
    cdef bint is_apart

    def use(self, stream):
        self.stream = stream

    def attach(self, socket):
        self.is_apart = False
        Socket.attach(self, socket)

    def detach(self):
        self.is_apart = True

    def end(self):
        self.is_apart = False
        self.handle = NULL

    def look_after_peer(self):
        pass

    def send(self, frames):
        cdef double now
        if self.stream is not None:
            now = coarse_seconds()
            if now >= self.look_at:
                self.look_at = now + LOOK_SECONDS
                self.look_after_peer()
            return self.stream.send(frames)
        if self.is_apart:
            return False
        return send_frames(self.live(), None, frames) == 0

    def receive(self):
        cdef void* handle
        cdef list frames
        if self.stream is not None:
            return self.stream.receive()
        if self.is_apart:
            return None
        handle = self.live()
        while True:
            frames = receive_frames(handle)
            if frames is None or len(frames) > 1 or PyBytes_GET_SIZE(frames[0]):
                return frames


cdef class RouterFrames(Socket):
    cdef readonly ZmtpListener listener
    cdef bint names_users
    cdef list waiting

    def __cinit__(self):
        self.waiting = []

    def serve(self, listener):
        self.listener = listener

    def name_users(self):
        self.names_users = True

    def send(self, peer, frames):
        cdef int number
        if self.listener is not None:
            return self.listener.send(peer, frames)
        number = send_frames(self.live(), peer, frames)
        if number == 0:
            return "sent"
        return "full" if number == EAGAIN else "gone"

    cdef tuple next_message(self):
        cdef void* handle = self.live()
        cdef list frames
        while True:
            frames = receive_frames(handle, self.names_users)
            if frames is None:
                return None
            user = frames.pop() if self.names_users else b""
            peer = frames.pop(0)
            if len(frames) > 1 or (frames and PyBytes_GET_SIZE(frames[0])):
                return peer, frames, user

    def receive(self):
        if not self.waiting:
            self.waiting = self.receive_many(1)
            self.waiting.reverse()
        return self.waiting.pop()[:2] if self.waiting else None

    def receive_many(self, Py_ssize_t limit):
        cdef list messages = []
        if self.listener is not None:
            return self.listener.receive_many()
        while len(messages) < limit:
            message = self.next_message()
            if message is None:
                break
            messages.append(message)
        return messages
