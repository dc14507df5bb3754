"""Waiting for descriptors and alarms, and serving the prompt ones (contract; see ``prompt_loop``)."""

import select
from collections.abc import Callable

NEVER: float

class Alarm:
    """Calls ``ring`` soon after ``at`` (in seconds of ``time.monotonic``), once; then it is to be set again."""

    at: float
    def __init__(self, ring: Callable[[], object]) -> None: ...
    @property
    def ring(self) -> Callable[[], object]: ...
    def set(self, at: float | None) -> None:
        """None: never."""

class PromptWait:
    """The descriptors that ``epoll`` watches, and callbacks to be called at once. An exception of a callback is
    logged."""

    is_asked: bool
    """Set it to make ``wait`` return."""
    def __init__(self, epoll: select.epoll) -> None: ...
    def serve(self, fd: int, serve: Callable[[], object]) -> bool:
        """Call this whenever ``fd``, which is the caller's to register, is ready. Whether nothing was called so far."""

    def forget(self, fd: int) -> bool:
        """Return whether it was served."""

    def add_alarm(self, alarm: Alarm) -> None: ...
    def wait(self, deadline: float) -> list[tuple[int, int]]:
        """Serve and ring until a descriptor without a server is ready, which is returned with its events, until it is
        asked to end, or until the deadline."""
