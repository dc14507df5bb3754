"""Comparison of bytes in memory, at the speed of reading them."""

def same(first: bytes | memoryview, second: bytes | memoryview) -> bool:
    """Return whether two contiguous buffers have the same bytes. Other threads may run meanwhile."""
