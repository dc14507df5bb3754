"""Event records, one for all tasks of a message.

A record is a header of 48 bytes and, for some kinds, a body; everything is little-endian, and the size of a record is
a multiple of 8. Sessions, agents and functions are small numbers, counted from 0 within one epoch of a scheduler and
never used again; options count from 1, and begin again after 16 million. A NAME record says what each of them means,
before the first record that uses it. ``NONE`` stands for no agent, function or worker.

======== ========= ==== =============================================================================================
field    type      at   meaning
======== ========= ==== =============================================================================================
kind     u16        0   a :class:`Kind`
flags    u16        2   see the kind
count    u32        4   rows of the columns, or tasks of the range
size     u32        8   bytes of the whole record
session  u32       12   whose tasks
time     u64       16   microseconds since 1970
first    u64       24   first task of the range
agent    u32       32
function u32       36
attempt  u32       40
worker   u32       44   of its agent, counted from 0
======== ========= ==== =============================================================================================

Kinds and their bodies; text is UTF-8, the bytes up to the next multiple of 8 are 0:

* NAME: what an index means. ``flags`` is a :class:`Naming`, ``first`` the index, the body a JSON object:
  SESSION ``{"session": hex, "host", "pid", "parent": hex}``, AGENT ``{"session": hex, "name", "host", "pid",
  "workers": [name, ...]}``, FUNCTION ``{"digest": hex, "name", "module"}``, OPTIONS those of ``{"priority",
  "capabilities": {name: amount}, "retries", "rerun", "timeout_seconds", "memory_bytes", "actor_name"}`` that are not as
  usual, with the first 16 capabilities, at most 64 characters of each name, and ``"more_capabilities"``: how many are
  left out. Those of calls of an actor say ``"actor"``: the task that has made it, and ``"actor_session"``: whose task
  that is, if it is of another client; not if very many actors are called by turns.
* SUBMITTED: tasks ``first .. first + count - 1`` of ``function`` came from their client at ``time``; ``attempt`` is the
  index of their options, 0 if it does not say: it is 0 in recordings made before options had names, and when very many
  different options come within seconds. ``worker`` is the size in bytes of the arguments that came with each task, on
  average (objects are not part of it); NONE in older recordings. When a recording begins, the tasks that came before
  are told of, too; and tasks are told of again when their priority is changed.
* HANDED: tasks ``first .. first + count - 1``, attempt ``attempt``, went to ``agent``.
* ENDED: ``count`` executions, at ``agent`` or (NONE) before they came to one. Columns, one after another in this order:
  task u64, duration u64 (microseconds), attempt u32, with FUNCTIONS function u32 (else all are of ``function``), with
  AGES age u32 (microseconds from its end until ``time``; else all ended at ``time``), with WORKERS worker u16 (else
  ``worker``), status u8: a ``Status``, plus AGAIN when the task is not over: it is queued again. In a worker column
  0xFFFF stands for none.
* RAN: tasks ``first .. first + count - 1`` each ended at ``worker`` of ``agent``, all in attempt ``attempt`` and with
  the ``Status`` in the lower byte of ``flags``. Columns: duration, then age, as in ENDED; u16 with SHORT, else u32.
* STEPPED: as RAN, with a body of about two bytes a task: see :mod:`scaler_protocol.steps`.
* PARTS: what the durations of ``count`` executions consist of besides running. It follows the records that say of
  these executions that they ended, in the same order; parts that are longer than the whole are wrong. The body: for
  each u64 task, u32 attempt, u32 microseconds of fetching arguments, u32 of loading them, u32 of storing the result.
* FAILED: why task ``first`` failed; ``flags`` is its ``Status``. The body: u32 size of the payload, u32 size of what
  follows (32 KiB at most): the payload, or the same with shorter texts (:mod:`scaler_protocol.monitor.payloads`).
  Payloads: docs/protocol.md, "How a task ends". At most 100 of each status are recorded a second.
* GRAPH: nodes ``first .. first + count - 1`` of a graph, all of ``function``. The body: u64 number of the graph's last
  task, then for each edge u64 node, u64 the node whose result it needs. With CUT the edges are left out: the graph has
  more than 10,000 nodes.
* OUTPUT: what task ``first``, or with the session NONE a worker process outside of tasks, has printed: whole lines, or
  the end of one. ``flags``: 1 stdout, 2 stderr. The body: u64 bytes that are missing before these, u32 size of the
  text, u16 sizes of two names, the names of function and worker, the text. At most 512 KiB a second are recorded.
* LOG: a line of the log of ``agent``, or of the scheduler (NONE), written at ``time`` by the clock of its host.
  ``first`` is its number: those that are missing were left out, and one that came before is the same line again.
  ``flags`` is its level. The body is its text.
* NESTED: the client ``session`` lives in task ``first``, attempt ``attempt``, of another client from now on. The body:
  u64 number from which on its tasks are children of that task, u64 session of the task.
* AGENT_JOINED, AGENT_LOST, CLIENT_JOINED, CLIENT_LEFT: ``agent`` or ``session``. ``first`` of AGENT_LOST is 1 if the
  agent has said goodbye.
* GAP: ``first`` records before this one are lost: they were taken too late. Only between scheduler and publisher; what
  watchers get, and logs, says so with the number of the first record of a batch.
"""

from __future__ import annotations

import enum
import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scaler_protocol import steps
from scaler_protocol.ids import shown_id
from scaler_protocol.limits import NO_WORKER as NO_WORKER
from scaler_protocol.messages import DEFAULT_OPTIONS, UNITS_PER_WHOLE, LogLine, TaskOptions
from scaler_protocol.monitor.bounds import (
    CAPABILITIES_LIMIT,
    CAPABILITY_LIMIT,
    NAME_LIMIT_BYTES,
    RECORDS_LIMIT,
    short_text,
)
from scaler_protocol.monitor.payloads import FAILURE_LIMIT_BYTES, kept_payload

NONE = 0xFFFFFFFF
AGAIN = 0x80

HEADER = struct.Struct("<HHIIIQQIIII")
HEADER_SIZE = HEADER.size


class Kind(enum.IntEnum):
    """The values are part of the wire format and never change; a reader skips unknown kinds."""

    NAME = 1
    SUBMITTED = 2
    HANDED = 3
    ENDED = 4
    FAILED = 5
    GRAPH = 6
    AGENT_JOINED = 7
    AGENT_LOST = 8
    CLIENT_JOINED = 9
    CLIENT_LEFT = 10
    GAP = 11
    RAN = 12
    STEPPED = 13
    PARTS = 14
    OUTPUT = 15
    NESTED = 16
    LOG = 17


LASTING = (Kind.NAME, Kind.LOG)
"""Kinds that late watchers get, too, however old the records are. To get one again changes nothing."""

ENDINGS = (Kind.ENDED, Kind.RAN, Kind.STEPPED)
"""Kinds that say of executions that they ended."""


class Naming(enum.IntEnum):
    """The kind of thing that a NAME record names."""

    SESSION = 0
    AGENT = 1
    FUNCTION = 2
    OPTIONS = 3


class Flag(enum.IntFlag):
    """The flags of records. ENDED: the columns that may be missing; GRAPH: CUT; RAN: SHORT."""

    FUNCTIONS = 1
    AGES = 2
    WORKERS = 4
    CUT = 1
    SHORT = 0x100


CUT_OFF = "The columns of an event record are cut off."


class BadRecord(ValueError):
    """The bytes are not event records; the text is one sentence."""


class Record(NamedTuple):
    """A record's header, and its body as a view into the bytes it was read from."""

    kind: int
    flags: int
    count: int  # type: ignore[assignment]
    session: int
    time: int
    first: int
    agent: int
    function: int
    attempt: int
    worker: int
    body: memoryview


class EndedColumns(NamedTuple):
    """The columns of an ENDED record, as views. ``None``: the header says it for all rows."""

    tasks: memoryview  # u64
    durations: memoryview  # u64
    attempts: memoryview  # u32
    functions: memoryview | None  # u32
    ages: memoryview | None  # u32
    workers: memoryview | None  # u16
    statuses: memoryview  # u8


def records(data: bytes | memoryview) -> Iterator[Record]:
    """All records, in order. Raises BadRecord when it comes to bytes that are not a record, or to more records than any
    scheduler puts into a message."""
    view = memoryview(data)
    at = found = 0
    while at < len(view):
        found += 1
        if found > RECORDS_LIMIT:
            raise BadRecord("There are too many event records in one message.")
        if len(view) - at < HEADER_SIZE:
            raise BadRecord("An event record is cut off.")
        kind, flags, count, size, session, time, first, agent, function, attempt, worker = HEADER.unpack_from(view, at)
        if size < HEADER_SIZE or size % 8 or size > len(view) - at:
            raise BadRecord("An event record has an impossible size.")
        body = view[at + HEADER_SIZE : at + size]
        yield Record(kind, flags, count, session, time, first, agent, function, attempt, worker, body)
        at += size


def ended_columns(record: Record) -> EndedColumns:
    """Return the columns of a record of ENDINGS. BadRecord when the body is shorter than its columns."""
    if record.kind != Kind.ENDED:
        return _spelled_out(record, *durations_and_ages(record))
    columns: list[memoryview | None] = []
    at = 0
    for code, size, flag in _ENDED:
        if flag and not record.flags & flag:
            columns.append(None)
            continue
        stop = at + size * record.count
        if stop > len(record.body):
            raise BadRecord(CUT_OFF)
        columns.append(memoryview.cast(record.body[at:stop], code))  # type: ignore[call-overload]
        at = stop
    return EndedColumns(*columns)  # type: ignore[arg-type]


def durations_and_ages(record: Record) -> tuple[Sequence[int], Sequence[int]]:
    """Return the durations and the ages of a RAN or STEPPED record. BadRecord when they are cut off."""
    if record.kind == Kind.STEPPED:
        try:
            return steps.spelled_out(record.body, record.count)
        except ValueError:
            raise BadRecord(CUT_OFF) from None
    code, size = ("H", 2) if record.flags & Flag.SHORT else ("I", 4)
    stop = size * record.count
    if 2 * stop > len(record.body):
        raise BadRecord(CUT_OFF)
    return record.body[:stop].cast(code), record.body[stop : 2 * stop].cast(code)  # type: ignore[call-overload]


def _spelled_out(record: Record, durations: Sequence[int], ages: Sequence[int]) -> EndedColumns:
    count = record.count
    if record.first + count > 1 << 64:
        raise BadRecord("An event record names impossible tasks.")
    return EndedColumns(
        memoryview(array("Q", range(record.first, record.first + count))),
        memoryview(array("Q", durations)),
        memoryview(array("I", [record.attempt]) * count),
        None,
        memoryview(array("I", ages)),
        None,
        memoryview(bytes([record.flags & 0xFF]) * count),
    )


_ENDED: tuple[tuple[str, int, int], ...] = (
    ("Q", 8, 0), ("Q", 8, 0), ("I", 4, 0), ("I", 4, Flag.FUNCTIONS), ("I", 4, Flag.AGES), ("H", 2, Flag.WORKERS),
    ("B", 1, 0),
)  # fmt: skip


def name_of(record: Record) -> dict[str, Any]:
    """The JSON object of a NAME record. Raises BadRecord if it does not contain one."""
    if len(record.body) > NAME_LIMIT_BYTES:
        raise BadRecord("The name in an event record is too long.")
    try:
        value = json.loads(bytes(record.body).rstrip(b"\0"))
    except (ValueError, RecursionError) as error:
        raise BadRecord("The name in an event record cannot be read.") from error
    if not isinstance(value, dict):
        raise BadRecord("The name in an event record cannot be read.")
    return value


def failure_of(record: Record) -> tuple[int, bytes]:
    """Return the complete size of the payload of a FAILED record, and the part of it that the record has."""
    if len(record.body) < 8:
        raise BadRecord("The payload of an event record is cut off.")
    size, kept = struct.unpack_from("<II", record.body)
    return size, bytes(record.body[8 : 8 + min(kept, FAILURE_LIMIT_BYTES)])


def options_value(options: TaskOptions) -> dict[str, Any]:
    """Return the JSON object that names options; empty if they are as usual."""
    value: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("priority", "retries", "rerun", "timeout_seconds", "memory_bytes")
        if getattr(options, name) != getattr(DEFAULT_OPTIONS, name)
    }
    if options.actor_name:
        value["actor_name"] = short_text(options.actor_name)
    if options.actor:
        value["actor"] = options.actor
        if options.actor_session:
            value["actor_session"] = shown_id(options.actor_session).hex()
    if options.capabilities:
        first = options.capabilities[:CAPABILITIES_LIMIT]
        shown = {short_text(each.name, CAPABILITY_LIMIT): each.units / UNITS_PER_WHOLE for each in first}
        value["capabilities"] = shown
        if len(options.capabilities) > len(shown):
            value["more_capabilities"] = len(options.capabilities) - len(shown)
    return value


def options_key(options: TaskOptions) -> tuple[object, ...]:
    """Return what differs where :func:`options_value` does, for less work."""
    limits = options.retries, options.rerun, options.timeout_seconds, options.memory_bytes, options.actor_name
    shown = options.capabilities[:CAPABILITIES_LIMIT]
    names = [each.name[: CAPABILITY_LIMIT + 1] for each in shown]  # one more: a name that is cut looks different
    amounts = [(each.amount, each.millionths) for each in shown]
    actor = options.actor, options.actor_session
    return options.priority, *limits, *actor, len(options.capabilities), *names, *amounts


_PARTS = struct.Struct("<QIIII")


def parts_record(rows: Sequence[tuple[int, int, int, int, int]], *, time: int, session: int) -> bytes:
    """``rows``: task, attempt, and microseconds of fetching, loading and storing."""
    body = b"".join(_PARTS.pack(*row) for row in rows)
    return record(Kind.PARTS, time=time, count=len(rows), session=session, body=body)


def parts_of(record: Record) -> Iterator[tuple[int, int, int, int, int]]:
    """The rows of a PARTS record."""
    if len(record.body) < record.count * _PARTS.size:
        raise BadRecord(CUT_OFF)
    rows: Iterator[Any] = _PARTS.iter_unpack(record.body[: record.count * _PARTS.size])
    return rows


_NESTED = struct.Struct("<QQ")


def nested_record(session: int, first_child: int, parent: tuple[int, int, int], *, time: int) -> bytes:
    """``parent``: session, task and attempt of the task in which the client ``session`` lives."""
    parent_session, task, attempt = parent
    body = _NESTED.pack(first_child, parent_session)
    return record(Kind.NESTED, time=time, session=session, first=task, attempt=attempt, body=body)


def nested_of(record: Record) -> tuple[int, int]:
    """Return the first child and the session of the parent of a NESTED record."""
    if len(record.body) < _NESTED.size:
        raise BadRecord(CUT_OFF)
    first_child, parent_session = _NESTED.unpack_from(record.body)
    return first_child, parent_session


_OUTPUT = struct.Struct("<QIHH")
OUTPUT_LIMIT_BYTES = 64 * 1024
"""Limit of the text of an OUTPUT record."""

OUTPUT_NAME_BYTES = 1024


LOG_LINE_LIMIT_BYTES = 8 * 1024


class PrintedText(NamedTuple):
    """The body of an OUTPUT record."""

    function: str
    worker: str
    left_out: int
    data: bytes


def output_record(
    stream: int, data: bytes, *, function_name: str, worker_name: str, left_out: int, task: int, **header: int
) -> bytes:
    """``header``: time, session, attempt, agent, worker."""
    names = [name.encode()[:OUTPUT_NAME_BYTES] for name in (function_name, worker_name)]
    kept = data[:OUTPUT_LIMIT_BYTES]
    body = _OUTPUT.pack(left_out, len(kept), *map(len, names)) + b"".join(names) + kept
    return record(Kind.OUTPUT, flags=stream, count=1, first=task, body=body, **header)


def output_of(record: Record) -> PrintedText:
    """Read an OUTPUT record."""
    if len(record.body) < _OUTPUT.size:
        raise BadRecord(CUT_OFF)
    left_out, size, *lengths = _OUTPUT.unpack_from(record.body)
    rest = bytes(record.body[_OUTPUT.size :])
    if sum(lengths) + size > len(rest) or size > OUTPUT_LIMIT_BYTES:
        raise BadRecord(CUT_OFF)
    function, worker = (
        name.decode("utf-8", "replace") for name in (rest[: lengths[0]], rest[lengths[0] : sum(lengths)])
    )
    return PrintedText(function, worker, left_out, rest[sum(lengths) : sum(lengths) + size])


def log_record(line: LogLine, agent: int = NONE) -> bytes:
    """A line of the log of this agent; NONE: of the scheduler."""
    body = line.text.encode("utf-8", "replace")
    return record(Kind.LOG, time=int(line.time * 1e6), flags=line.level, first=line.number, agent=agent, body=body)


def log_line_of(record: Record) -> LogLine:
    """Read a LOG record."""
    if len(record.body) > LOG_LINE_LIMIT_BYTES:
        raise BadRecord("A line of a log in an event record is too long.")
    text = bytes(record.body).rstrip(b"\0").decode("utf-8", "replace")
    return LogLine(record.first, record.time / 1e6, record.flags, text)


def edges_of(record: Record) -> tuple[int, memoryview]:
    """Return the number of the graph of a GRAPH record, and (node, input) pairs, flat."""
    if len(record.body) < 8 or (len(record.body) - 8) % 16:
        raise BadRecord("The edges of an event record are cut off.")
    values = record.body.cast("Q")
    return values[0], values[1:]


def record(
    kind: int,
    *,
    time: int,
    flags: int = 0,
    count: int = 0,
    session: int = NONE,
    first: int = 0,
    agent: int = NONE,
    function: int = NONE,
    attempt: int = 0,
    worker: int = NONE,
    body: bytes = b"",
) -> bytes:
    """One record, as the scheduler writes it where it is not per task."""
    size = (HEADER_SIZE + len(body) + 7) // 8 * 8
    head = HEADER.pack(kind, flags, count, size, session, time, first, agent, function, attempt, worker)
    return (head + body).ljust(size, b"\0")


def name_record(naming: Naming, index: int, value: dict[str, Any], *, time: int = 0) -> bytes:
    return record(Kind.NAME, time=time, flags=naming, first=index, body=json.dumps(value).encode())


def failed_record(status: int, payload: bytes, *, time: int, session: int, task: int, **header: int) -> bytes:
    """``header``: attempt, agent, function, worker."""
    kept = kept_payload(status, payload)
    body = struct.pack("<II", len(payload), len(kept)) + kept
    return record(Kind.FAILED, time=time, flags=status, count=1, session=session, first=task, body=body, **header)


def ended_record(
    tasks: Sequence[int],
    durations: Sequence[int],
    attempts: Sequence[int],
    statuses: Sequence[int],
    *,
    time: int,
    session: int,
    functions: Sequence[int] | None = None,
    ages: Sequence[int] | None = None,
    workers: Sequence[int] | None = None,
    **header: int,
) -> bytes:
    """``header``: agent, function, worker; for tests and for what is rare."""
    body, flags = b"", 0
    for values, (code, _, flag) in zip(
        (tasks, durations, attempts, functions, ages, workers, statuses), _ENDED, strict=True
    ):
        if values is not None:
            body += struct.pack(f"<{len(values)}{code}", *values)
            flags |= flag
    return record(Kind.ENDED, time=time, flags=flags, count=len(tasks), session=session, body=body, **header)


def ran_record(
    first: int,
    durations: Sequence[int],
    ages: Sequence[int],
    *,
    time: int,
    session: int,
    status: int = 0,
    **header: int,
) -> bytes:
    """``header``: agent, function, attempt, worker; for tests."""
    is_short = max([*durations, *ages], default=0) <= 0xFFFF
    body = struct.pack(f"<{2 * len(durations)}{'H' if is_short else 'I'}", *durations, *ages)
    flags = status | (Flag.SHORT if is_short else 0)
    return record(
        Kind.RAN, time=time, flags=flags, count=len(durations), session=session, first=first, body=body, **header
    )
