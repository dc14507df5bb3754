"""The reasons of pods that do not say why they wait: events tell them, such as those about a volume that is missing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scaler_worker.manager.core.jobs import JobState
from scaler_worker.manager.core.pods import KEYS_MISSING, PodJob, reason_words

SILENT_SECONDS = 5.0
"""The events of a pod are asked for when it has waited this long without a reason."""

REPEAT_SECONDS = 10.0
"""And again after this long, while it waits."""


class SilentPods:
    """The pods that start and give no reason why they do not run yet."""

    def __init__(self) -> None:
        self._ask_at: dict[str, float] = {}
        self._reasons: dict[str, str] = {}

    def next_to_ask(self, jobs: Iterable[PodJob], now: float) -> str | None:
        """Return the pod whose events shall be listed now, at most one per call. ``jobs``: all pods."""
        silent = sorted(job.id for job in jobs if job.state is JobState.STARTING and not job.reason)
        self._ask_at = {id: self._ask_at.get(id, now + SILENT_SECONDS) for id in silent}
        self._reasons = {id: self._reasons[id] for id in silent if id in self._reasons}
        found = min(silent, key=self._ask_at.__getitem__, default=None)
        if found is None or self._ask_at[found] > now:
            return None
        self._ask_at[found] = now + REPEAT_SECONDS
        return found

    def on_events(self, id: str, events: Sequence[Mapping[str, Any]]) -> None:
        """All events of this pod."""
        self._reasons[id] = _reason(events)

    def lacks_keys(self, id: str) -> bool:
        """The Secret with the keys of this pod is missing, as far as its events tell."""
        return re.match(KEYS_MISSING, self._reasons.get(id, "")) is not None

    def explained(self, job: PodJob) -> PodJob:
        """Return the pod with the reason of its events, if it gives none itself."""
        return job if job.reason else dataclasses.replace(job, reason=self._reasons.get(job.id, ""))


def _reason(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the last event if it is a warning: after others, such as the pulling of its image, a pod takes its time.
    What the scheduler said is over: while it finds no node, the pod says so itself."""
    known = [each for each in events if each.get("reason") != "FailedScheduling"]
    last = max(known, key=_order, default={})
    if last.get("type") != "Warning":
        return ""
    message = re.sub(r"[0-9a-f]{32,}", "ID", str(last.get("message") or ""))
    return reason_words(str(last.get("reason")), message)


def _order(event: Mapping[str, Any]) -> tuple[str, bool]:
    """Times have seconds, and some have fractions. Within a second, a warning counts as the later one."""
    series, metadata = event.get("series") or {}, event.get("metadata") or {}
    times = (series.get("lastObservedTime"), *(event.get(each) for each in ("lastTimestamp", "eventTime")))
    time = next((each for each in times if each), metadata.get("creationTimestamp"))
    return str(time or "")[:19], event.get("type") == "Warning"
