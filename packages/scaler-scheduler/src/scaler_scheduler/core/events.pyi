"""Event records, written for monitors while a monitor watches or a log is kept.

Contract of events.pyx; the contents of records: ``scaler_protocol.monitor.records``. Nothing is recorded, and next to
nothing is spent, while ``is_on`` is false. Sessions and functions are numbered when they are first met,
agents by the core.
"""

from typing import Any

from scaler_protocol.messages import LogLine, OutputPiece
from scaler_protocol.monitor.ring import RingWriter

class Recorder:
    now: float
    """The core's time; set by it whenever it is called."""
    is_on: bool
    recording: int
    """Counts the recordings: each begins with all names again."""
    recorded: int
    dropped: int
    """Records since the core began."""
    named_bytes: int
    """Size of all NAME records since the core began."""
    def start(self, ring: RingWriter, clock_offset: float) -> None:
        """Record into ``ring``. ``clock_offset``: seconds since 1970 at the core's time 0."""
    def set_clock(self, clock_offset: float) -> None:
        """Replace the offset that ``start`` received, because the clock was set."""
    def stop(self) -> None: ...
    def name_session(self, number: int, value: dict[str, Any]) -> None: ...
    def name_agent(self, number: int, value: dict[str, Any]) -> None: ...
    def note(self, kind: int, session: int = ..., agent: int = ..., first: int = ...) -> None:
        """A peer came or left."""
    def nested(self, session: int, first_child: int, parent: tuple[int, int, int]) -> None:
        """A client lives in a task of another one from now on: session, task and attempt of ``parent``."""
    def agent_lost(self, agent: int, places: dict[tuple[int, int, int], tuple[int, int]], age_us: int) -> None:
        """An agent is being removed. ``places``: the worker of each execution that ran there ``age_us`` ago, and for
        how many microseconds it had run then, by session, task and attempt. Those that end until ``agent_removed`` are
        recorded with these."""
    def agent_removed(self) -> None: ...
    def failed(self, session: int, task: int, status: int, payload: bytes) -> None:
        """A failure that the scheduler made itself."""
    def printed(self, piece: OutputPiece, session: int | None, agent: int, limit_bytes: int) -> None:
        """A task has printed this. ``limit_bytes``: in a second; the rest is left out, as the next record says."""

    def logged(self, line: LogLine, agent: int, limit_characters: int) -> None:
        """An agent, or the scheduler (NONE), has logged this. ``limit_characters``: in a second; more is left out."""

    def flush(self) -> None:
        """Write what was collected. At the end of each turn."""
