# cython: language_level=3, boundscheck=False, wraparound=False
"""The directory of a store. See directory.pyi."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

import fcntl
import mmap
import os
from collections import namedtuple

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* 64 bytes. The version is odd while the entry stands. */
    typedef struct {
        uint64_t version, number, segment, offset, size;
        unsigned char owner[16];
        uint64_t unused;
    } scaler_slot;
    #if defined(__GNUC__)
    static uint64_t scaler_version(const scaler_slot *slot) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        return __atomic_load_n(&slot->version, __ATOMIC_ACQUIRE);
    }
    static int scaler_look(const scaler_slot *slot, scaler_slot *copy) {
        const uint64_t *from = (const uint64_t *) slot;
        uint64_t words[8];
        int index;
        words[0] = __atomic_load_n(&from[0], __ATOMIC_ACQUIRE);
        if (!(words[0] & 1))
            return 0;
        for (index = 1; index < 8; index++)
            words[index] = __atomic_load_n(&from[index], __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        memcpy(copy, words, sizeof words);
        return __atomic_load_n(&from[0], __ATOMIC_RELAXED) == words[0];
    }
    static void scaler_enter(scaler_slot *slot, const scaler_slot *filled) {
        uint64_t words[8];
        int index;
        memcpy(words, filled, sizeof words);
        for (index = 1; index < 8; index++)
            __atomic_store_n(&((uint64_t *) slot)[index], words[index], __ATOMIC_RELAXED);
        __atomic_store_n(&slot->version, slot->version + 1, __ATOMIC_RELEASE);
    }
    static void scaler_leave(scaler_slot *slot) {
        __atomic_store_n(&slot->version, slot->version + 1, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    #else /* no store runs here */
    static uint64_t scaler_version(const scaler_slot *slot) { return 0; }
    static int scaler_look(const scaler_slot *slot, scaler_slot *copy) { return 0; }
    static void scaler_enter(scaler_slot *slot, const scaler_slot *filled) {}
    static void scaler_leave(scaler_slot *slot) {}
    #endif
    """
    ctypedef struct scaler_slot:
        uint64_t version
        uint64_t number
        uint64_t segment
        uint64_t offset
        uint64_t size
        unsigned char owner[16]
        uint64_t unused
    uint64_t scaler_version(const scaler_slot* slot)
    bint scaler_look(const scaler_slot* slot, scaler_slot* copy)
    void scaler_enter(scaler_slot* slot, const scaler_slot* filled)
    void scaler_leave(scaler_slot* slot)

cdef enum:
    SLOT_COUNT = 32768
    BUCKET = 8
    BUCKETS = 4096
    OWNER = 16

SLOTS = SLOT_COUNT
_SIZE_BYTES = SLOT_COUNT * sizeof(scaler_slot)
_SEALS = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
_SEAL_FUTURE_WRITE = 0x10  # since Linux 5.1
_ADD_SEALS = 1033


Entry = namedtuple("Entry", "slot version segment offset size")


cdef scaler_slot* bucket_of(scaler_slot* slots, const unsigned char* owner, uint64_t number) noexcept:
    """Objects of one owner have consecutive numbers, and so fill the buckets evenly."""
    cdef uint64_t first, second
    memcpy(&first, owner, 8)
    memcpy(&second, owner + 8, 8)
    first = (first ^ second) * <uint64_t> 0x9E3779B97F4A7C15
    return slots + ((first >> 32) + number) % BUCKETS * BUCKET


cdef bint is_of(const scaler_slot* slot, const unsigned char* owner, uint64_t number) noexcept:
    return slot.number == number and memcmp(slot.owner, owner, OWNER) == 0


cdef class Directory:
    cdef readonly int fd
    cdef Py_buffer _view
    cdef scaler_slot* _slots

    def __cinit__(self):
        self.fd = -1
        self.fd = os.memfd_create("scaler-directory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(self.fd, 0, _SIZE_BYTES)
        PyObject_GetBuffer(mmap.mmap(self.fd, _SIZE_BYTES), &self._view, PyBUF_SIMPLE)
        self._slots = <scaler_slot*> self._view.buf
        try:
            fcntl.fcntl(self.fd, _ADD_SEALS, _SEALS | _SEAL_FUTURE_WRITE)
        except OSError:
            fcntl.fcntl(self.fd, _ADD_SEALS, _SEALS)

    def __dealloc__(self):
        if self._slots != NULL:
            PyBuffer_Release(&self._view)
        if self.fd >= 0:
            os.close(self.fd)

    def publish(self, bytes owner not None, uint64_t number, uint64_t segment, uint64_t offset, uint64_t size):
        cdef scaler_slot filled
        cdef scaler_slot* slot
        cdef scaler_slot* bucket
        cdef int index
        if len(owner) != OWNER:
            return
        filled.number, filled.segment, filled.offset, filled.size, filled.unused = number, segment, offset, size, 0
        memcpy(filled.owner, <const unsigned char*> owner, OWNER)
        bucket = bucket_of(self._slots, <const unsigned char*> owner, number)
        for index in range(BUCKET):
            slot = bucket + index
            if not slot.version & 1:
                break
        else:
            slot = bucket + number // BUCKETS % BUCKET  # of consecutive numbers, the oldest
            scaler_leave(slot)
        scaler_enter(slot, &filled)

    def withdraw(self, bytes owner not None, uint64_t number):
        cdef scaler_slot* bucket
        cdef int index
        if len(owner) != OWNER:
            return
        bucket = bucket_of(self._slots, <const unsigned char*> owner, number)
        for index in range(BUCKET):
            if bucket[index].version & 1 and is_of(bucket + index, <const unsigned char*> owner, number):
                scaler_leave(bucket + index)


cdef class DirectoryView:
    cdef Py_buffer _view
    cdef scaler_slot* _slots

    def __cinit__(self, int fd):
        PyObject_GetBuffer(mmap.mmap(fd, _SIZE_BYTES, prot=mmap.PROT_READ), &self._view, PyBUF_SIMPLE)
        self._slots = <scaler_slot*> self._view.buf

    def __dealloc__(self):
        if self._slots != NULL:
            PyBuffer_Release(&self._view)

    def find(self, bytes owner not None, uint64_t number):
        cdef scaler_slot found
        cdef scaler_slot* bucket
        cdef int index
        if len(owner) != OWNER:
            return None
        bucket = bucket_of(self._slots, <const unsigned char*> owner, number)
        for index in range(BUCKET):
            if scaler_look(bucket + index, &found) and is_of(&found, <const unsigned char*> owner, number):
                return Entry(bucket - self._slots + index, found.version, found.segment, found.offset, found.size)
        return None

    def stands(self, entry):
        cdef uint64_t slot = entry.slot
        return slot < SLOT_COUNT and scaler_version(self._slots + slot) == entry.version
