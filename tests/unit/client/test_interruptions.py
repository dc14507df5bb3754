"""Ctrl-C at each point where Python looks for signals: no future is lost, and the client goes on."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from scaler_protocol.codec import encode
from scaler_protocol.messages import Hello
from tests.unit.client.fake_scheduler import FakeScheduler


class Interruption(BaseException):
    pass


class ReplayingScheduler(FakeScheduler):
    def _greet(self, peer: bytes, hello: Hello) -> None:
        resumed = hello.epoch == self.epoch and peer in self._links
        super()._greet(peer, hello)
        if resumed:
            for envelope in self._links[peer].resume(hello.received):
                self._socket.send(peer, encode(envelope))


@cache
def points_of(code: CodeType) -> frozenset[int]:
    points = set()
    previous = ""
    for instruction in dis.get_instructions(code):
        if previous.startswith("CALL") or previous == "RESUME" or instruction.opname.startswith("JUMP_BACKWARD"):
            points.add(instruction.offset)
        previous = instruction.opname
    return frozenset(points)


class Interrupter:
    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if "/scaler/" not in name and "/scaler_protocol/" not in name:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode" and frame.f_lasti in points_of(frame.f_code):
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                self.where = f"{name.rsplit('/', 1)[1]}:{frame.f_lineno} {frame.f_code.co_name}"
                raise Interruption
        return self.trace


def interrupted(work: Callable[[], object], at: int) -> str:
    interrupter = Interrupter(at)
    sys.settrace(interrupter.trace)
    try:
        work()
    except Interruption:
        pass
    finally:
        sys.settrace(None)
    return interrupter.where


def lost(scheduler: FakeScheduler, at: int) -> tuple[str, list[str]]:
    """Where the call was interrupted, and what did not end well after that."""
    futures: list[ScalerFuture] = []

    def work() -> None:
        for value in range(3):
            future = client.submit(operator.neg, value)
            futures.append(future)
            if value % 2:
                future.add_done_callback(lambda _: None)
        for future in futures:
            future.result(5)

    troubles = []
    with Client(scheduler.address) as client:
        client.submit(operator.neg, 1).result(5)
        where = interrupted(work, at)
        futures.append(client.submit(operator.neg, len(futures)))
        for value, future in enumerate(futures):
            try:
                assert future.result(20) == -value
            except BaseException as error:
                troubles.append(f"{where}: {value} {error!r}")
    return where, troubles


@pytest.mark.timeout(120)
def test_no_future_is_lost_wherever_a_call_is_interrupted() -> None:
    troubles: list[str] = []
    with ReplayingScheduler() as scheduler:
        for at in range(1, 5000):
            where, found = lost(scheduler, at)
            troubles += found
            if not where or len(troubles) > 5:
                break
    assert not troubles
