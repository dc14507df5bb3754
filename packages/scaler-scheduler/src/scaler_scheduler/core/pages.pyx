# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pages: the columns of tasks, a piece at a time.

A page has room for the ``PAGE_SIZE`` tasks whose numbers differ only in their last ``PAGE_BITS`` bits. For each task it
holds one byte of state (see states.py), how often its worker process died and its agent was lost, its attempt, the
agent to which it was last assigned, the place of its run in the table, and the duration with which it was assigned.
``live`` counts the tasks that have not ended; the table frees a page when there are none."""

from cython cimport final
from libc.stdlib cimport calloc, free


@final
cdef class PageBox:
    """Owns the memory of one page."""

    def __cinit__(self):
        self.page = <Page*> calloc(1, sizeof(Page))
        if self.page == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.page)
