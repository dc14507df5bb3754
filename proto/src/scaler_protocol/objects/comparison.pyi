"""Whether bytes in memory are the same, at the speed of reading them."""

def same(first: bytes | memoryview, second: bytes | memoryview) -> bool:
    """Of two contiguous buffers. Others may run meanwhile."""
