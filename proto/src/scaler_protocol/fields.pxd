from libc.stdint cimport uint8_t, uint32_t, uint64_t

from scaler_protocol.wire cimport BytesView, Reader, StructView


cdef int open_root(Reader* reader, StructView* root, bytes head) except -1
cdef int out_of_bounds(str name) except -1
cdef bytes take_bytes(Reader* reader, StructView* view, uint32_t field, str name)
cdef bytes take_id(Reader* reader, StructView* view, uint32_t field, str name)
cdef const uint8_t* take_column(Reader* reader, StructView* view, uint32_t field, uint64_t size, str name) except? NULL
cdef str take_text(Reader* reader, StructView* view, uint32_t field, str name, uint64_t most_bytes)
cdef tuple take_texts(
    Reader* reader, StructView* view, uint32_t field, str name, uint64_t most_items, uint64_t most_bytes
)
cdef int check_count(str name, uint64_t count, uint64_t most_items) except -1
