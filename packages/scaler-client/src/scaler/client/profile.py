"""Profiles of running tasks: where they spend their time, over the whole cluster."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from scaler.client.inquiries import Inquiry, profile_inquiry
from scaler.utility.exceptions import ControlError
from scaler_protocol.profile import BadProfile, ProfileTree
from scaler_protocol.profile_report import GROUPS, ProfileRow, page_of, rows_of, speedscope_of, text_of


class ProfileReport:
    """The samples of a profile, which can be printed, shown in a notebook and saved. Times include everything that
    tasks did while they were running: computing, waiting and sleeping."""

    def __init__(self, numbers: Iterator[int], interval_seconds: float) -> None:
        """``numbers``: numbers that no other profile of this client has."""
        if not 0.001 <= interval_seconds <= 60:
            raise ValueError(f"Cannot sample every {interval_seconds} s. Choose an interval from 0.001 to 60 s.")
        self._numbers = numbers
        self._number = 0
        self._interval_us = round(interval_seconds * 1e6)
        self._tree = ProfileTree(_NODES_LIMIT)
        self._started_at: float | None = None
        self.seconds = 0.0
        """Between start and stop."""

    # ---- beginning and end -----------------------------------------------------------------------------------------

    def _beginning(self) -> Inquiry[list[bytes]]:
        """The request that begins the profile. Each beginning has its own number, so that a late answer to an earlier
        one is not taken for its own."""
        if self._started_at is not None:
            raise ControlError("Cannot begin the profile: it has begun. Call stop() first.")
        self._number = next(self._numbers)
        return profile_inquiry(self._number, self._interval_us)

    def _end(self) -> Inquiry[list[bytes]]:
        """The request that ends the profile, whose answer is the encoded profiles of agents."""
        return profile_inquiry(self._number, 0)

    def _stop_clock(self) -> None:
        if self._started_at is None:
            raise ControlError("Cannot end the profile: it has not begun. Call start() first.")
        self.seconds += time.monotonic() - self._started_at
        self._started_at = None

    def _merge(self, profiles: Iterable[bytes]) -> None:
        """``profiles``: those of agents, encoded."""
        for data in profiles:
            if data:
                self._tree.merge(_read(data))

    # ---- contents ------------------------------------------------------------------------------------------------

    def rows(self, by: str = "function", least_share: float = 0.005) -> Iterator[ProfileRow]:
        """Return the calls from the outermost to the innermost: depth, name, microseconds with and without the calls
        below, and the share of the total. ``by``: what the first level is, "function", "worker" or "client"."""
        return rows_of(self._tree, _checked(by), least_share)

    def text(self, by: str = "function") -> str:
        """A table of the calls that took at least 0.5 % of the time."""
        return text_of(self._tree, _checked(by))

    def html(self, by: str = "function") -> str:
        """A page with a flame graph, which needs no other file."""
        return page_of(self._tree, by=_checked(by))

    def speedscope(self) -> dict[str, Any]:
        """The profile for https://www.speedscope.app, as JSON values."""
        return speedscope_of(self._tree)

    def save(self, path: str | Path, by: str = "function") -> None:
        """Write a page with a flame graph (``.html``), a file for speedscope (``.json``), or a text (``.txt``)."""
        kind = Path(path).suffix.lower()
        if kind == ".html":
            text = self.html(by)
        elif kind == ".json":
            text = json.dumps(self.speedscope())
        elif kind == ".txt":
            text = self.text(by) + "\n"
        else:
            raise ValueError(f"Cannot save the profile as {str(path)!r}. Give it a name with .html, .json or .txt.")
        Path(path).write_text(text, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Profile of {self._tree.total_us / 1e6:.3g} s of tasks>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        page = self.html().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 420px; border: 0"></iframe>'


class Profile(ProfileReport):
    """A profile, created by ``Client.profile``. It records from ``start`` to ``stop``, or within a ``with`` block."""

    def __init__(
        self, inquire: Callable[[Inquiry[list[bytes]]], list[bytes]], numbers: Iterator[int], interval_seconds: float
    ) -> None:
        """``inquire`` sends an inquiry to the scheduler and returns its answer."""
        super().__init__(numbers, interval_seconds)
        self._inquire = inquire

    def start(self) -> Profile:
        """Start recording. Raises ``ControlError`` if the scheduler refuses it."""
        inquiry = self._beginning()
        try:
            self._inquire(inquiry)
        except KeyboardInterrupt:
            with contextlib.suppress(ControlError):
                self._inquire(self._end())  # it may have begun
            raise
        self._started_at = time.monotonic()
        return self

    def stop(self) -> Profile:
        """Stop recording, and collect the samples of all hosts. Hosts that do not answer within five seconds are left
        out. Raises ``ControlError`` if the profile was lost with the scheduler."""
        self._stop_clock()
        self._merge(self._inquire(self._end()))
        return self

    def __enter__(self) -> Profile:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except Exception:
            if error is None:  # otherwise this one matters more
                raise


_NODES_LIMIT = 200_000


def _read(data: bytes) -> ProfileTree:
    try:
        return ProfileTree.from_bytes(data)
    except BadProfile as error:
        raise ControlError(f"Cannot read the profile of a host: {error} Use the same version everywhere.") from error


def _checked(by: str) -> str:
    if by not in GROUPS:
        raise ValueError(f"Cannot group a profile by {by!r}. Choose one of {', '.join(GROUPS)}.")
    return by
