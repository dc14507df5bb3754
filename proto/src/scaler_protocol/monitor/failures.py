"""Failures, grouped by their cause.

What travels in a failure comes from other people's programs. It is taken apart without making a single object of
theirs: a pickle is never carried out, only read for its texts, and one that was cut is read up to the cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaler_protocol.messages import Status
from scaler_protocol.monitor.bounds import shown_text
from scaler_protocol.monitor.causes import Cause, cause_of, kind_of
from scaler_protocol.monitor.format import format_bytes, format_count, printable
from scaler_protocol.monitor.output_log import PrintedLine
from scaler_protocol.monitor.payloads import PICKLED, exception_texts, stderr_of
from scaler_protocol.output_text import shown_lines

GROUP_LIMIT = 500
"""Groups kept. A further one takes the place of a rare one, of the kind that has the most groups."""

EXAMPLE_LIMIT = 3
"""Failures of a group that are kept whole: the first one and the latest others."""

KEPT_LIMIT = 16 * 1024 * 1024
"""Characters of all examples together: beyond it new ones are kept without their details."""

_NOT_KEPT = "(Its details are not kept: there are too many failures.)"

NAME_LIMIT = 5
"""Functions and hosts named in a row."""

_DEATH_TYPE = "ProcessorDiedError"
_ERRORS: dict[int, str] = {
    Status.TIMED_OUT: "TaskTimeoutError",
    Status.MEMORY_EXCEEDED: "TaskMemoryError",
    Status.WORKER_DIED: "WorkerDiedError",
    Status.OBJECT_MISSING: "MissingObjects",
    Status.NO_WORKER: "NoWorkerError",
    Status.NOT_FOUND: "TaskNotFoundError",
}
"""The exception that the client raises if the payload is a sentence."""

STATUS_NAMES = {status: status.name.lower().replace("_", " ") for status in Status}
STATUS_NAMES[Status.SUCCESS] = STATUS_NAMES[Status.SUCCESS_LARGE] = "succeeded"
"""The words of screens for the end of a task; where its result is stored makes no difference to them."""


class Failure(NamedTuple):
    """One failed execution, in words. Its task may have run again."""

    time: float
    task: int
    session: bytes
    function: str
    host: str
    worker: str
    attempt: int
    status: int
    type: str
    message: str
    details: str
    """A traceback, or death certificates; may be empty."""

    actor: str = ""
    """The name of the actor that the task has made or called."""

    @property
    def size(self) -> int:
        return len(self.message) + len(self.details)


@dataclass(slots=True)
class FailureGroup:
    """Failures with one cause."""

    number: int
    cause: Cause
    message: str
    """The message that the table shows: the message itself, or the masked one if messages differ."""

    count: int = 0
    first_time: float = 0.0
    last_time: float = 0.0
    functions: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    examples: list[Failure] = field(default_factory=list)

    def add(self, failure: Failure) -> int:
        """Return how many more characters are kept."""
        if not self.count:
            self.first_time = failure.time
        self.count += 1
        if shown_text(first_line(failure.message)) != self.message:
            self.message = self.cause.message
        self.last_time = max(self.last_time, failure.time)
        _note(self.functions, failure.function)
        _note(self.hosts, failure.host)
        self.examples.append(failure)
        dropped = self.examples.pop(1) if len(self.examples) > EXAMPLE_LIMIT else None
        return failure.size - (dropped.size if dropped is not None else 0)

    @property
    def size(self) -> int:
        return sum(example.size for example in self.examples)


class Failures:
    """All groups. ``total`` counts the failed executions that came with details; the scheduler's counts say how many
    tasks failed in truth: fewer, where a task died and ran again; more, where not every failure was recorded."""

    def __init__(self) -> None:
        self.total = 0
        self.dropped = 0
        """The part of ``total`` whose groups were dropped to make room for others."""

        self._by_cause: dict[Cause, FailureGroup] = {}
        self._by_number: dict[int, FailureGroup] = {}
        self._last_number = -1
        self._kept = 0

    @property
    def groups(self) -> list[FailureGroup]:
        """The groups in the order in which they began."""
        return list(self._by_number.values())

    @property
    def dropped_text(self) -> str:
        """The line above the table that states how many failures are not in it. Empty when all are."""
        return f"{format_count(self.dropped)} of rare causes are no longer listed" if self.dropped else ""

    def add(self, failure: Failure) -> None:
        message = first_line(failure.message)
        cause = cause_of(failure.status, failure.type, message, failure.details)
        self.total += 1
        if self._kept > KEPT_LIMIT:
            failure = failure._replace(message=shown_text(message), details=_NOT_KEPT)
        self._kept += self._group(cause, shown_text(message)).add(failure)

    def group(self, number: int) -> FailureGroup | None:
        return self._by_number.get(number)

    def _group(self, cause: Cause, message: str) -> FailureGroup:
        group = self._by_cause.get(cause)
        if group is None:
            if len(self._by_cause) >= GROUP_LIMIT:
                self._drop_rare()
            self._last_number += 1
            group = FailureGroup(self._last_number, cause, message)
            self._by_cause[cause] = self._by_number[group.number] = group
        return group

    def _drop_rare(self) -> None:
        """Drop a group of the kind with the most groups, so that a kind with many messages never removes one with
        few."""
        kinds = Counter(map(kind_of, self._by_cause))
        ((largest, _),) = kinds.most_common(1)
        alike = [group for cause, group in self._by_cause.items() if kind_of(cause) == largest]
        rarest = min(alike, key=lambda group: (group.count, group.last_time))
        del self._by_cause[rarest.cause], self._by_number[rarest.number]
        self._kept -= rarest.size
        self.dropped += rarest.count


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def read_payload(status: int, payload: bytes) -> tuple[str, str, str]:
    """Type, message and details of a failure. Never raises: what cannot be read is left out."""
    try:
        if status in PICKLED:
            return _read_exception(payload)
        if status == Status.PROCESSOR_DIED:
            return _read_certificates(payload)
    except Exception:
        return "", "", ""
    return _ERRORS.get(status, ""), payload.decode("utf-8", "replace"), ""


def details_text(group: FailureGroup, printed: Sequence[PrintedLine] = ()) -> str:
    """A group in full, for people: what failed, where, and what it said. Failures that said the same share it.
    ``printed``: what its tasks have written to stdout; the end of their stderr is a part of each failure."""
    parts = [_heading(group)]
    by_text: dict[str, list[str]] = {}
    for failure in reversed(group.examples):
        by_text.setdefault(_text(failure), []).append(_title(failure))
    for text, titles in by_text.items():
        parts.append("\n".join([*titles, "-" * max(map(len, titles)), text]))
    if printed:
        lines = (f"    task {line.task}: {line.text}" for line in printed)
        parts.append("\n".join(["stdout of these tasks, the newest lines:", *lines]))
    return "\n\n".join(parts) + "\n"


def details_of_task(failures: Failures, client: str, task: int) -> str:
    """The failures of one task that are kept whole, the latest one first; empty if none is. ``client``: the beginning
    of its id, in hexadecimal."""
    found = [
        each for group in failures.groups for each in group.examples
        if each.task == task and each.session.hex().startswith(client)
    ]  # fmt: skip
    found.sort(key=lambda each: -each.time)
    return "\n\n".join(f"{_title(each)}\n{_text(each)}" for each in found)


def status_name(status: int) -> str:
    try:
        return STATUS_NAMES[Status(status)]
    except ValueError:
        return f"status {status}"


def _heading(group: FailureGroup) -> str:
    cause = group.cause
    error = ": ".join(part for part in (cause.type, group.message) if part) or status_name(cause.status)
    lines = [
        error,
        *([f"raised at {cause.place}"] if cause.place else []),
        f"{status_name(cause.status)}, seen {'once' if group.count == 1 else f'{group.count:,} times'}",
        f"functions: {', '.join(group.functions) or '-'}",
        f"hosts: {', '.join(group.hosts) or '-'}",
    ]
    return "\n".join(lines)


def _text(failure: Failure) -> str:
    """Return what it said, in printable lines: the text of an exception may contain anything, such as characters that
    turn the direction of writing, or that have no encoding."""
    lines = (failure.details or failure.message).strip().expandtabs(4).splitlines()
    return "\n".join(map(printable, lines)) or "(nothing more is known)"


def _title(failure: Failure) -> str:
    where = " ".join(part for part in (failure.host, failure.worker) if part) or "no worker"
    called = f"{failure.function} of actor {failure.actor}" if failure.actor else failure.function
    return f"task {failure.task} of {failure.session.hex()[:8]}, attempt {failure.attempt}: {called} on {where}"


def _note(names: list[str], name: str) -> None:
    if name and name not in names and len(names) < NAME_LIMIT:
        names.append(name)


# ---- reading what other programs wrote -------------------------------------------------------------------------------


def _read_exception(payload: bytes) -> tuple[str, str, str]:
    """Read the tuple (exception as bytes, type name, message, formatted traceback)."""
    kind, message, details = (*exception_texts(payload), "", "", "")[:3]
    lines = shown_lines(stderr_of(payload))
    if lines:
        details = "\n".join([details.rstrip("\n"), "", "stderr:", *(f"    {line}" for line in lines)])
    return kind, message, details


def _read_certificates(payload: bytes) -> tuple[str, str, str]:
    """Read the JSON list of death certificates, or a single one. The last death is the message."""
    try:
        certificates = json.loads(payload)
    except ValueError:
        return _DEATH_TYPE, "", payload.decode("utf-8", "replace")
    if isinstance(certificates, dict):
        certificates = [certificates]
    certificates = [each for each in certificates if isinstance(each, dict)]
    message = _death(certificates[-1]) if certificates else ""
    return _DEATH_TYPE, message, "\n\n".join(_certificate_text(each) for each in certificates)


def _death(certificate: dict[str, Any]) -> str:
    """Return how the process ended, without what differs from death to death."""
    parts = [str(certificate.get("signal") or "")]
    if certificate.get("exit_code") is not None:
        parts.append(f"exit code {certificate['exit_code']}")
    if certificate.get("out_of_memory"):
        parts.append("out of memory")
    return ", ".join(filter(None, parts)) or "unknown cause"


def _certificate_text(certificate: dict[str, Any]) -> str:
    told = {name: value for name, value in certificate.items() if value not in (None, "", [], False)}
    return "\n".join(_field_text(name, value) for name, value in told.items())


def _field_text(name: str, value: Any) -> str:
    if name == "peak_memory" and isinstance(value, int):
        value = format_bytes(value)
    text = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
    name = name.replace("_", " ")
    return f"{name}:\n    " + text.strip().replace("\n", "\n    ") if "\n" in text else f"{name}: {text}"
