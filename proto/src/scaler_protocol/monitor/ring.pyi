"""A ring of event records in shared memory, from the scheduler to its publisher; records: see ``records``.

One side writes, one reads; neither ever waits for the other. When the ring is full, records are dropped and counted,
and a GAP record comes before the next one that fits. The memory begins with a page for two counters: bytes written, at
64, and bytes read, at 128. A record lies in one piece; what is left at the end of the ring is skipped, and so is the
rest of it when all was taken: the writer goes on at the start, in memory that is still in the processor's caches.
"""

from typing import Any

from scaler_protocol.codec import ResultRun

RING_HEADER_BYTES: int

class RingWriter:
    """Writes into ``memory``, a writable buffer of zeros of a page and a multiple of 8 bytes."""

    recorded: int
    """Records written."""
    dropped: int
    """Records that found no room."""
    def __init__(self, memory: Any) -> None: ...
    def write(self, record: bytes) -> bool:
        """One record as ``records.record`` makes it. False: it was dropped."""
    def write_plain(
        self, kind: int, count: int, time: int, session: int, first: int, function: int, agent: int, attempt: int,
        worker: int = ...,
    ) -> bool:  # fmt: skip
        """One record without a body."""
    def write_ended(
        self,
        run: ResultRun,
        time: int,
        session: int,
        agent: int,
        segments: list[tuple[int, int]],
        fates: bytearray | None,
    ) -> bool:
        """The rows of ``run``, as RAN records where many in a row ended alike, else as one ENDED record. ``segments``:
        (first row, function) each; ``fates``: what to write as the statuses instead of those in ``run``, 255 leaves a
        row out. True: some did not succeed."""

def failed_rows(run: ResultRun, rooms: bytes) -> list[int]:
    """Rows of ``run`` that neither succeeded nor were cancelled; of each status the first ones, at most
    ``rooms[status]``."""

def lasting_in(data: bytes) -> list[bytes]:
    """The records of the kinds in ``records.LASTING``."""

class RingReader:
    """Takes what a writer wrote."""

    read: int
    """Records taken, without GAP records."""
    dropped: int
    """Records that the GAP records taken so far speak of."""
    def __init__(self, memory: Any) -> None: ...
    def take(self, limit_bytes: int) -> tuple[bytes, int, int]:
        """Records of together about ``limit_bytes``, one at least: their bytes, how many they are, and the number of
        the first one, counting those that were dropped before; GAP records are left out. (b"", 0, number): nothing
        waits. ValueError when the memory holds no records: its writer is not to be trusted any more."""
