# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reading the fields of a message: bytes, ids, columns and texts, with their bounds and limits checked.

``wire`` finds a field without raising; the functions here raise ``MalformedMessage``, with the name of the field, if the
field is out of bounds, larger than allowed, or not text.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from scaler_protocol.columns cimport ID_SIZE
from scaler_protocol.wire cimport (
    BytesView,
    ListView,
    Reader,
    StructView,
    open_message,
    read_bytes,
    read_bytes_at,
    read_pointers,
    read_struct,
)

__all__ = ["MalformedMessage"]


class MalformedMessage(ValueError):
    """The received frames are not a message of this protocol."""


cdef int open_root(Reader* reader, StructView* root, bytes head) except -1:
    """Open the first frame of a message. ``head`` must outlive ``reader``."""
    if not open_message(reader, <const uint8_t*> PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head)):
        raise MalformedMessage("The first frame is not a Cap'n Proto message.")
    if reader.segments[0].words == 0 or not read_struct(reader, 0, 0, root):
        raise MalformedMessage("The root of the message is out of bounds.")
    return 0


cdef int out_of_bounds(str name) except -1:
    raise MalformedMessage(f"{name} is out of bounds.")


cdef bytes take_bytes(Reader* reader, StructView* view, uint32_t field, str name):
    cdef BytesView data
    if not read_bytes(reader, view, field, &data):
        out_of_bounds(name)
    return PyBytes_FromStringAndSize(<char*> data.data, data.size) if data.size else b""


cdef bytes take_id(Reader* reader, StructView* view, uint32_t field, str name):
    cdef bytes data = take_bytes(reader, view, field, name)
    if PyBytes_GET_SIZE(data) != ID_SIZE:
        raise MalformedMessage(f"{name} has {len(data)} bytes instead of {ID_SIZE}.")
    return data


cdef const uint8_t* take_column(Reader* reader, StructView* view, uint32_t field, uint64_t size, str name) except? NULL:
    """A column of exactly ``size`` bytes, within the frame."""
    cdef BytesView data
    if not read_bytes(reader, view, field, &data):
        out_of_bounds(name)
    if data.size != size:
        raise MalformedMessage(f"{name} has {data.size} bytes instead of {size}.")
    return data.data


cdef str take_text(Reader* reader, StructView* view, uint32_t field, str name, uint64_t most_bytes):
    cdef BytesView data
    if not read_bytes(reader, view, field, &data):
        out_of_bounds(name)
    return text_of(&data, name, most_bytes)


cdef tuple take_texts(
    Reader* reader, StructView* view, uint32_t field, str name, uint64_t most_items, uint64_t most_bytes
):
    cdef ListView texts
    cdef BytesView data
    cdef uint32_t index
    cdef list values = []
    if not read_pointers(reader, view, field, &texts):
        out_of_bounds(name)
    check_count(name, texts.count, most_items)
    for index in range(texts.count):
        if not read_bytes_at(reader, texts.segment, texts.start + index, &data):
            out_of_bounds(name)
        values.append(text_of(&data, name, most_bytes))
    return tuple(values)


cdef int check_count(str name, uint64_t count, uint64_t most_items) except -1:
    """Refuse a list with too many items before any of them is read."""
    if count > most_items:
        raise MalformedMessage(f"{name} has {count} items; {most_items} are allowed.")
    return 0


cdef str text_of(BytesView* data, str name, uint64_t most_bytes):
    """The text of a Cap'n Proto ``Text``: UTF-8 with a terminating zero byte."""
    if data.size == 0:
        return ""
    if data.size - 1 > most_bytes:
        raise MalformedMessage(f"{name} has {data.size - 1} bytes; {most_bytes} are allowed.")
    if data.data[data.size - 1] != 0:
        raise MalformedMessage(f"{name} has no terminating zero byte.")
    try:
        return PyUnicode_DecodeUTF8(<char*> data.data, data.size - 1, NULL)
    except UnicodeDecodeError:
        raise MalformedMessage(f"{name} is not UTF-8.") from None
