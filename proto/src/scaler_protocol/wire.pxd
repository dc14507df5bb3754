"""Reading and writing the layout of Cap'n Proto messages (https://capnproto.org/encoding.html) without its library.

Inline functions only; nothing here raises (but ``put_message``, for want of memory, and ``sure``): reading functions
return False for what is out of bounds or of the wrong kind. Everything read is checked against the segments and against
a budget of words, so that pointers which share their target cannot make a small message large.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    SEGMENT_LIMIT = 64
    MESSAGE_DATA = 3  # words of the data section of Message
    BYTES = 2  # list element kinds of the encoding
    POINTERS = 6
    COMPOSITE = 7


cdef inline uint64_t load64(const uint8_t* at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint32_t load32(const uint8_t* at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline void store64(uint8_t* at, uint64_t value) noexcept nogil:
    memcpy(at, &value, 8)


cdef inline void store32(uint8_t* at, uint32_t value) noexcept nogil:
    memcpy(at, &value, 4)


# ---- writing: one segment whose size is known beforehand ------------------------------------------------------------


cdef struct Writer:
    uint8_t* base
    uint64_t used  # words
    uint64_t size


cdef inline uint64_t words_for(uint64_t size_bytes) noexcept nogil:
    return (size_bytes + 7) // 8


cdef inline uint8_t* word(Writer* writer, uint64_t index) noexcept nogil:
    return writer.base + index * 8


cdef inline int64_t reserve(Writer* writer, uint64_t words) noexcept nogil:
    """The index of new zeroed words; -1 when the message is full."""
    cdef uint64_t start = writer.used
    if words > writer.size - start:
        return -1
    memset(word(writer, start), 0, words * 8)
    writer.used = start + words
    return <int64_t> start


cdef inline int64_t put_struct(
    Writer* writer, uint64_t pointer, uint16_t data_words, uint16_t pointer_words
) noexcept nogil:
    """Points ``pointer`` to a new struct and returns where it starts."""
    cdef int64_t start = reserve(writer, data_words + pointer_words)
    if start < 0:
        return -1
    cdef uint64_t offset = <uint64_t> start - pointer - 1
    store64(word(writer, pointer), (offset << 2) | (<uint64_t> data_words << 32) | (<uint64_t> pointer_words << 48))
    return start


cdef inline int64_t put_structs(
    Writer* writer, uint64_t pointer, uint32_t count, uint16_t data_words, uint16_t pointer_words
) noexcept nogil:
    """Points ``pointer`` to a new list of structs and returns where the first one starts."""
    cdef uint64_t words = <uint64_t> count * (data_words + pointer_words)
    cdef int64_t start = reserve(writer, words + 1)
    if start < 0:
        return -1
    cdef uint64_t offset = <uint64_t> start - pointer - 1
    store64(word(writer, pointer), (offset << 2) | 1 | (<uint64_t> COMPOSITE << 32) | (words << 35))
    store64(
        word(writer, start),
        (<uint64_t> count << 2) | (<uint64_t> data_words << 32) | (<uint64_t> pointer_words << 48),
    )
    return start + 1


cdef inline int64_t put_pointers(Writer* writer, uint64_t pointer, uint32_t count) noexcept nogil:
    """Points ``pointer`` to a new list of pointers and returns where the first one is."""
    cdef int64_t start = reserve(writer, count)
    if start < 0:
        return -1
    cdef uint64_t offset = <uint64_t> start - pointer - 1
    store64(word(writer, pointer), (offset << 2) | 1 | (<uint64_t> POINTERS << 32) | (<uint64_t> count << 35))
    return start


cdef inline uint8_t* put_bytes(Writer* writer, uint64_t pointer, uint64_t size) noexcept nogil:
    """Points ``pointer`` to a new list of bytes and returns them; NULL when the message is full."""
    cdef int64_t start = reserve(writer, words_for(size))
    if start < 0:
        return NULL
    cdef uint64_t offset = <uint64_t> start - pointer - 1
    store64(word(writer, pointer), (offset << 2) | 1 | (<uint64_t> BYTES << 32) | (size << 35))
    return word(writer, start)


cdef inline bytes put_message(Writer* writer, uint64_t words, uint64_t sequence, uint64_t acknowledged, uint16_t tag):
    """A message of exactly ``words`` words whose root is written: a Message whose pointer is at word 4."""
    cdef bytes head = PyBytes_FromStringAndSize(NULL, 8 * (words + 1))
    cdef uint8_t* base = <uint8_t*> PyBytes_AS_STRING(head)
    store32(base, 0)
    store32(base + 4, <uint32_t> words)
    writer.base = base + 8
    writer.used = 1
    writer.size = words
    put_struct(writer, 0, MESSAGE_DATA, 1)
    store64(word(writer, 1), sequence)
    store64(word(writer, 2), acknowledged)
    store64(word(writer, 3), tag)
    return head


cdef inline int64_t sure(int64_t start) except -1:
    if start < 0:
        raise SystemError("A message is larger than was reckoned.")
    return start


# ---- reading --------------------------------------------------------------------------------------------------------


cdef struct Segment:
    const uint8_t* base
    uint64_t words


cdef struct Reader:
    Segment segments[SEGMENT_LIMIT]
    uint32_t count
    int64_t budget


cdef struct Target:
    uint64_t value  # of the pointer; 0: null
    uint32_t segment
    uint64_t start


cdef struct StructView:
    uint32_t segment
    const uint8_t* data
    uint32_t data_words
    uint64_t pointers  # word index in the segment
    uint32_t pointer_words


cdef struct ListView:
    uint32_t segment
    uint64_t start
    uint32_t count
    uint16_t data_words  # of each struct, when it is a list of structs
    uint16_t pointer_words


cdef struct BytesView:
    const uint8_t* data
    uint64_t size


cdef inline bint open_message(Reader* reader, const uint8_t* data, uint64_t size) noexcept nogil:
    """The segment table of the stream framing, which must fill ``data`` exactly."""
    if size < 8 or size % 8:
        return False
    cdef uint64_t count = <uint64_t> load32(data) + 1
    if count > SEGMENT_LIMIT:
        return False
    cdef uint64_t position = words_for(4 * (count + 1))
    cdef uint64_t words = size // 8
    cdef uint64_t index
    if position > words:
        return False
    for index in range(count):
        reader.segments[index].base = data + position * 8
        reader.segments[index].words = load32(data + 4 * (index + 1))
        position += reader.segments[index].words
        if position > words:
            return False
    reader.count = <uint32_t> count
    reader.budget = <int64_t> (2 * words + 64)
    return position == words


cdef inline bint spend(Reader* reader, uint64_t words) noexcept nogil:
    reader.budget -= <int64_t> words + 1
    return reader.budget >= 0


cdef inline bint holds(Reader* reader, uint32_t segment, uint64_t start, uint64_t words) noexcept nogil:
    cdef uint64_t size = reader.segments[segment].words
    return start <= size and words <= size - start


cdef inline uint64_t pointer_at(Reader* reader, uint32_t segment, uint64_t index) noexcept nogil:
    return load64(reader.segments[segment].base + index * 8)


cdef inline bint near(Reader* reader, uint32_t segment, uint64_t index, uint64_t value, Target* target) noexcept nogil:
    cdef int64_t start = <int64_t> index + 1 + ((<int32_t> <uint32_t> value) >> 2)
    if start < 0:
        return False
    target.value = value
    target.segment = segment
    target.start = <uint64_t> start
    return (value & 3) < 2


cdef inline bint follow(Reader* reader, uint32_t segment, uint64_t index, Target* target) noexcept nogil:
    """Return where the pointer at word ``index`` leads, through the landing pad of a far pointer if it is one."""
    cdef uint64_t value = pointer_at(reader, segment, index)
    target.value = value
    if value == 0:
        return True
    if (value & 3) != 2:
        return near(reader, segment, index, value, target)
    cdef uint32_t other = <uint32_t> (value >> 32)
    cdef uint64_t landing = (value >> 3) & 0x1FFFFFFF
    cdef bint two_words = (value >> 2) & 1
    if other >= reader.count or not holds(reader, other, landing, 1 + two_words):
        return False
    if not two_words:
        return near(reader, other, landing, pointer_at(reader, other, landing), target)
    value = pointer_at(reader, other, landing)
    target.value = pointer_at(reader, other, landing + 1)
    target.segment = <uint32_t> (value >> 32)
    target.start = (value >> 3) & 0x1FFFFFFF
    return (value & 7) == 2 and (target.value & 3) < 2 and target.segment < reader.count


cdef inline bint read_struct(Reader* reader, uint32_t segment, uint64_t index, StructView* view) noexcept nogil:
    """A null pointer gives an empty struct: every field has its default."""
    cdef Target target
    memset(view, 0, sizeof(StructView))
    if not follow(reader, segment, index, &target):
        return False
    if target.value == 0:
        return True
    view.segment = target.segment
    view.data_words = (target.value >> 32) & 0xFFFF
    view.pointer_words = <uint32_t> (target.value >> 48)
    if (target.value & 3) or not holds(reader, target.segment, target.start, view.data_words + view.pointer_words):
        return False
    view.data = reader.segments[target.segment].base + target.start * 8
    view.pointers = target.start + view.data_words
    return spend(reader, view.data_words + view.pointer_words)


cdef inline bint read_structs(Reader* reader, StructView* parent, uint32_t field, ListView* view) noexcept nogil:
    cdef Target target
    cdef uint64_t words, tag
    memset(view, 0, sizeof(ListView))
    if field >= parent.pointer_words:
        return True
    if not follow(reader, parent.segment, parent.pointers + field, &target):
        return False
    if target.value == 0:
        return True
    words = target.value >> 35
    if (target.value & 3) != 1 or ((target.value >> 32) & 7) != COMPOSITE:
        return False
    if not holds(reader, target.segment, target.start, words + 1):
        return False
    tag = pointer_at(reader, target.segment, target.start)
    view.segment = target.segment
    view.start = target.start + 1
    view.count = (<uint32_t> tag) >> 2
    view.data_words = <uint16_t> ((tag >> 32) & 0xFFFF)
    view.pointer_words = <uint16_t> (tag >> 48)
    if (tag & 3) or <uint64_t> view.count * (<uint64_t> view.data_words + view.pointer_words) > words:
        return False
    return spend(reader, words + view.count)


cdef inline void element(Reader* reader, ListView* list_view, uint32_t index, StructView* view) noexcept nogil:
    cdef uint64_t words = <uint64_t> list_view.data_words + list_view.pointer_words
    cdef uint64_t start = list_view.start + index * words
    view.segment = list_view.segment
    view.data = reader.segments[list_view.segment].base + start * 8
    view.data_words = list_view.data_words
    view.pointers = start + list_view.data_words
    view.pointer_words = list_view.pointer_words


cdef inline bint read_field(Reader* reader, StructView* parent, uint32_t field, StructView* view) noexcept nogil:
    if field >= parent.pointer_words:
        memset(view, 0, sizeof(StructView))
        return True
    return read_struct(reader, parent.segment, parent.pointers + field, view)


cdef inline bint read_bytes_at(Reader* reader, uint32_t segment, uint64_t index, BytesView* view) noexcept nogil:
    cdef Target target
    view.data = NULL
    view.size = 0
    if not follow(reader, segment, index, &target):
        return False
    if target.value == 0:
        return True
    view.size = target.value >> 35
    if (target.value & 3) != 1 or ((target.value >> 32) & 7) != BYTES:
        return False
    if not holds(reader, target.segment, target.start, words_for(view.size)):
        return False
    view.data = reader.segments[target.segment].base + target.start * 8
    return spend(reader, words_for(view.size))


cdef inline bint read_bytes(Reader* reader, StructView* parent, uint32_t field, BytesView* view) noexcept nogil:
    if field >= parent.pointer_words:
        view.data = NULL
        view.size = 0
        return True
    return read_bytes_at(reader, parent.segment, parent.pointers + field, view)


cdef inline bint read_pointers(Reader* reader, StructView* parent, uint32_t field, ListView* view) noexcept nogil:
    cdef Target target
    memset(view, 0, sizeof(ListView))
    if field >= parent.pointer_words:
        return True
    if not follow(reader, parent.segment, parent.pointers + field, &target):
        return False
    if target.value == 0:
        return True
    view.segment = target.segment
    view.start = target.start
    view.count = <uint32_t> (target.value >> 35)
    if (target.value & 3) != 1 or ((target.value >> 32) & 7) != POINTERS:
        return False
    return holds(reader, target.segment, target.start, view.count) and spend(reader, view.count)


cdef inline uint64_t field64(StructView* view, uint32_t index) noexcept nogil:
    """The ``index``-th u64 of the data section; 0 when the sender knew no such field."""
    return load64(view.data + 8 * index) if index < view.data_words else 0


cdef inline uint32_t field32(StructView* view, uint32_t index) noexcept nogil:
    return load32(view.data + 4 * index) if index < 2 * view.data_words else 0


cdef inline bint field_bit(StructView* view, uint32_t index) noexcept nogil:
    return (view.data[index // 8] >> (index % 8)) & 1 if index < 64 * view.data_words else False
