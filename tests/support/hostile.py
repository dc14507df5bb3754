"""A stream as nobody should send it: whatever can be encoded, the same for the same seed."""

from __future__ import annotations

import enum
import json
import pickle
import struct
from collections.abc import Callable
from dataclasses import replace
from random import Random

from scaler_protocol.messages import Status
from scaler_protocol.monitor import feed, records
from scaler_protocol.monitor.messages import Events, MonitorMessage, Snapshot
from scaler_protocol.monitor.records import Kind, Naming
from tests.support.any_value import any_instance

INTEGERS = [0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1]
FLOATS = [0.0, -0.0, 1.5, -1.0, 1e-300, 5e-324, 3.4e38, 1e300, -1e300, float("nan"), float("inf"), float("-inf")]
TEXTS = [
    "",
    "plain",
    "x" * 10_000,
    "9" * 10_000,
    "\0",
    "\x1b[2J\x1b]0;title\x07",
    "line\nline\r\ttab",
    "\u202eright to left\u202c\u2066",
    "\u05d0\u0627",
    "\ud800",
    "\uffff\ufeff",
    "\U0001f600" * 3000,
    "e\u0301" * 50,
    "<script>alert(1)</script>&amp;\"'`",
    "%s %n {0} \\",
    "Ⅷ²",
]


class Hostile:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)

    def message(self) -> MonitorMessage:
        """As a watcher decodes it."""
        made = self.snapshot() if self.chance.random() < 0.3 else self.events()
        return feed.decode(feed.encode(made)).message

    def snapshot(self) -> Snapshot:
        made = any_instance(Snapshot, self)
        scheduler = replace(made.scheduler, epoch=self.chance.choice([1] * 9 + [2]))
        return replace(made, scheduler=scheduler, time=self.chance.choice([0.0, 1e-9, 1.7e9, 9.9e10]))

    def events(self) -> Events:
        count = self.chance.choice([1, 1, 2, 5, 40])
        found = b"".join(self.record() for _ in range(count))
        if self.chance.random() < 0.1:
            found = found[: self.chance.randrange(len(found) + 1)]
        first = self.chance.choice([0, 0, 0, self.unsigned()])
        return Events(
            self.chance.choice([0.0, 1.7e9]), first, found, self.unsigned(), count, self.chance.choice([1, 2])
        )

    def record(self) -> bytes:
        """A whole record of any kind with any header; its body fits more often than not."""
        kind = self.chance.choice([*Kind, *Kind, 0, 77])
        count = self.chance.choice([0, 1, 3, 100, 100, self.unsigned() & 0xFFFFFFFF])
        make: Callable[[int], tuple[int, bytes]] = {
            Kind.NAME: self._name, Kind.ENDED: self._ended, Kind.RAN: self._ran, Kind.STEPPED: self._stepped,
            Kind.FAILED: self._failed, Kind.GRAPH: self._graph,
        }.get(kind, self._random)  # fmt: skip
        flags, body = make(count)
        if self.chance.random() < 0.1:
            body = body[: self.chance.randrange(len(body) + 1)]
        return records.record(
            kind, time=self.unsigned(), flags=flags, count=count, session=self.index(), first=self.unsigned(),
            agent=self.index(), function=self.index(), attempt=self.unsigned() & 0xFFFFFFFF, worker=self.index(),
            body=body,
        )  # fmt: skip

    def _name(self, count: int) -> tuple[int, bytes]:
        if self.chance.random() < 0.1:
            return self.chance.randrange(4), self.chance.choice([b"[" * 20_000, b'{"a":' * 5000, b"null", b"\xff"])
        value = {
            key: self.chance.choice([self.text(), self.identity().hex(), self.unsigned(), None, 1.5, [], True])
            for key in ("session", "host", "pid", "parent", "name", "digest")
        }
        value["workers"] = self.chance.choice([[], None, "text", [self.text() for _ in range(5)], [[], 1, None]])
        return self.chance.choice([*Naming, 9]), json.dumps(value).encode()

    def _ended(self, count: int) -> tuple[int, bytes]:
        flags, rows = self.chance.randrange(8), min(count, 200)
        size = 21 + 4 * bool(flags & 1) + 4 * bool(flags & 2) + 2 * bool(flags & 4)
        return flags, self._bytes(size * rows)

    def _ran(self, count: int) -> tuple[int, bytes]:
        flags = self.chance.randrange(256) | self.chance.choice([0, 0x100])
        return flags, self._bytes(8 * min(count, 200))

    def _stepped(self, count: int) -> tuple[int, bytes]:
        rows = min(count, 200)
        body = bytearray(8 + 2 * rows)
        body[:4] = struct.pack("<I", 0xFFFFFFFF)
        for place in range(8, len(body)):
            body[place] = self.chance.randrange(255)
        return self.chance.randrange(256), bytes(body)

    def _failed(self, count: int) -> tuple[int, bytes]:
        payload = self.chance.choice(
            [
                b"",
                self._bytes(300),
                pickle.dumps((b"", self.text(), self.text(), self.text())),
                json.dumps([{"signal": self.text(), "peak_memory": self.unsigned(), "stack": [self.text()]}]).encode(),
                b"\x80\x05r\xff\xff\xff\x0f.",  # would have the unpickler remember in 2 GiB
                b"[" * 10_000,
                b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",
            ]
        )
        kept = self.chance.choice([len(payload), 0, 2**32 - 1])
        return self.chance.choice([*Status, 0x80, 255]), struct.pack(
            "<II", self.unsigned() & 0xFFFFFFFF, kept
        ) + payload

    def _graph(self, count: int) -> tuple[int, bytes]:
        numbers = [self.unsigned() for _ in range(1 + 2 * self.chance.randrange(50))]
        return self.chance.choice([0, 0, 0, 1]), struct.pack(f"<{len(numbers)}Q", *numbers)

    def _random(self, count: int) -> tuple[int, bytes]:
        return self.chance.randrange(2**16), self._bytes(self.chance.randrange(200))

    def _bytes(self, size: int) -> bytes:
        return self.chance.choice([bytes(size), b"\xff" * size, self.chance.randbytes(size)])

    def length(self) -> int:
        return self.chance.choice([0, 1, 2, 3, 3, 14])

    def flag(self) -> bool:
        return self.chance.random() < 0.5

    def member(self, kind: type[enum.Enum]) -> enum.Enum:
        return self.chance.choice(list(kind))

    def integer(self) -> int:
        return self.chance.choice(INTEGERS)

    def unsigned(self) -> int:
        return self.chance.choice([0, 1, 5, 100, 1_700_000_000_000_000, self.chance.choice(INTEGERS) % 2**64])

    def index(self) -> int:
        return self.chance.choice([0, 0, 1, 2, 3, 65_534, 65_535, 2**24 - 1, 2**24, 2**32 - 2, 2**32 - 1])

    def number(self) -> float:
        return self.chance.choice(FLOATS)

    def text(self) -> str:
        return self.chance.choice(TEXTS)

    def identity(self) -> bytes:
        return self.chance.choice([b"", b"\x01" * 16, b"\xff" * 16, self.chance.randbytes(200)])
