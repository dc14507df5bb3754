"""Event records and snapshots of monitors, made of a fuzzer's choices: mostly right, and wrong anywhere."""

from __future__ import annotations

import enum
import json
import pickle
import struct
from dataclasses import replace

from fuzz.choices import Choices
from scaler_protocol.messages import Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.messages import Events, Snapshot
from scaler_protocol.monitor.records import NONE, Flag, Kind
from tests.support.any_value import any_instance

NAMES = ("", "name", "f<lambda>", "größe\x1b[31m\n", "x" * 300)
INDICES = (0, 1, 2, 7, 65_535, 1_000_000, NONE - 1, NONE)
NUMBERS = (0, 1, 5, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1)
TIMES_US = (0, 1_700_000_000_000_000, 1_700_000_001_000_000, 2**63, 2**64 - 1)
DURATIONS_US = (0, 1, 5, 2**16, 2**32 - 1)
REALS = (0.0, 0.5, -1.0, 1e9, 1e30)
"""The numbers that a scheduler lets into a snapshot: heartbeats with other numbers are refused."""

NAMED = (
    {"session": "00" * 16, "host": "host", "pid": 5, "parent": ""},
    {"session": "zz", "name": 5, "host": None, "workers": ["a", 3, None]},
    {"session": "11" * 16, "name": "agent", "host": "host", "pid": 9, "workers": ["a", "b"]},
    {"digest": "22" * 16, "name": "module.function"},
    {"digest": "33" * 16, "name": "f<lambda>", "module": "größe\x1b"},
    {"digest": "44" * 16, "name": "f<lambda>", "module": 5},
    [],
)
PAYLOADS = (
    pickle.dumps((b"", "ValueError", "no such thing", "Traceback")),
    json.dumps([{"signal": "SIGKILL", "exit_code": None, "peak_memory": 5, "stack": ["a", "b"]}]).encode(),
    b"a sentence",
    b"",
)


def a_record(choices: Choices) -> bytes:
    """One of any kind; now and then with bytes of the fuzzer's in place of its own."""
    kind = choices.pick([*Kind])
    count, flags, body = choices.below(8), 0, b""
    if kind == Kind.NAME:
        flags, body = choices.below(4), json.dumps(choices.pick(NAMED)).encode()
    elif kind == Kind.ENDED:
        flags = choices.below(8) & (Flag.FUNCTIONS | Flag.AGES | Flag.WORKERS)
        body = choices.take(count * (21 + 4 * bool(flags & 1) + 4 * bool(flags & 2) + 2 * bool(flags & 4)))
    elif kind in (Kind.RAN, Kind.STEPPED):
        flags = choices.pick([*Status]) | (Flag.SHORT if choices.flag() else 0)
        body = choices.take(choices.below(8 * count + 9))
    elif kind == Kind.PARTS:
        body = b"".join(some_parts(choices) for _ in range(count))
    elif kind == Kind.FAILED:
        flags, payload = choices.pick([*Status]), choices.pick(PAYLOADS)
        body = len(payload).to_bytes(4, "little") * 2 + payload
    elif kind == Kind.LOG:
        flags, body = choices.below(256), choices.pick(NAMES).encode("utf-8", "replace")
    elif kind == Kind.GRAPH:
        flags, body = (
            choices.below(2),
            b"".join(choices.pick(NUMBERS).to_bytes(8, "little") for _ in range(1 + 2 * count)),
        )
    if choices.flag(8):
        body = choices.take(choices.below(64))
    return records.record(
        kind if not choices.flag(16) else choices.number(2),
        time=choices.pick(TIMES_US),
        flags=int(flags),
        count=choices.pick(NUMBERS[:5]) if choices.flag(8) else count,
        session=choices.pick(INDICES),
        first=choices.pick(NUMBERS),
        agent=choices.pick(INDICES),
        function=choices.pick(INDICES),
        attempt=choices.below(3),
        worker=choices.pick(INDICES),
        body=body,
    )


def some_parts(choices: Choices) -> bytes:
    """A row of a record of parts."""
    microseconds = (choices.pick(DURATIONS_US) for _ in range(3))
    return struct.pack("<QIIII", choices.pick(NUMBERS), choices.below(3), *microseconds)


def some_events(choices: Choices) -> Events:
    found = b"".join(a_record(choices) for _ in range(1 + choices.below(4)))
    return Events(
        choices.pick(REALS), choices.pick(NUMBERS), found, choices.below(3), choices.below(8), choices.below(3)
    )


class ChosenValues:
    """Values of fields, chosen by the fuzzer."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def integer(self) -> int:
        return self._choices.pick(NUMBERS)

    def number(self) -> float:
        return self._choices.pick(REALS)

    def text(self) -> str:
        return self._choices.pick(NAMES)

    def identity(self) -> bytes:
        return self._choices.take(16)

    def flag(self) -> bool:
        return self._choices.flag()

    def length(self) -> int:
        return self._choices.below(3)

    def member(self, kind: type[enum.Enum]) -> enum.Enum:
        return self._choices.pick([*kind])


def a_snapshot(choices: Choices) -> Snapshot:
    """Any, with the fields that a snapshot has now."""
    found = any_instance(Snapshot, ChosenValues(choices))
    scheduler = replace(found.scheduler, epoch=choices.below(3))
    return replace(found, scheduler=scheduler)
