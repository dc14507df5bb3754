"""Pages: the columns of tasks, a piece at a time (contract of pages.pyx and pages.pxd).

A page has room for the ``PAGE_SIZE`` tasks whose ids differ only in their last ``PAGE_BITS`` bits: one byte of state
for each (see ``states``), how often its processor or its agent was lost, its attempt, the agent it was last given to,
its run's place in the table, and the duration it was given out with. ``live`` counts those that have not ended; the
table frees a page when there are none.
"""

class PageBox:
    """Owns the memory of one page."""
