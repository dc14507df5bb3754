# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pages: the columns of tasks, a piece at a time. See pages.pyi for the contract."""

from cython cimport final
from libc.stdlib cimport calloc, free


@final
cdef class PageBox:
    def __cinit__(self):
        self.page = <Page*> calloc(1, sizeof(Page))
        if self.page == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.page)
