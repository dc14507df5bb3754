"""Raises an exception at each point where Python looks for signals, as a Ctrl-C would."""

from __future__ import annotations

import dis
import signal
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any


class Interruption(BaseException):
    pass


@cache
def points_of(code: CodeType) -> frozenset[int]:
    points = set()
    previous = ""
    for instruction in dis.get_instructions(code):
        if previous.startswith("CALL") or previous == "RESUME" or instruction.opname.startswith("JUMP_BACKWARD"):
            points.add(instruction.offset)
        previous = instruction.opname
    return frozenset(points)


sys._getframe().f_trace_opcodes = True  # Python 3.12 obeys this from the next trace function on, of any frame


class Interrupter:
    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Called for each new frame: decides how to trace it."""
        name = frame.f_code.co_filename
        is_foreign = "/scaler/" not in name and "/scaler_protocol/" not in name
        if is_foreign or frame.f_code.co_name == "__del__":  # Python ignores exceptions there
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        points = points_of(frame.f_code)

        def trace_opcode(frame: FrameType, event: str, _: Any) -> Any:
            if event == "opcode" and frame.f_lasti in points:
                self._pass_point(frame)
            return trace_opcode

        return trace_opcode

    def _pass_point(self, frame: FrameType) -> None:
        self.left -= 1
        if not self.left:
            sys.settrace(None)
            name = frame.f_code.co_filename
            self.where = f"{name.rsplit('/', 1)[1]}:{frame.f_lineno} {frame.f_code.co_name}"
            signal.raise_signal(signal.SIGUSR2)


def interrupted(work: Callable[[], object], at: int) -> str:
    """Where ``work`` was interrupted, at the point of this number; empty: it has ended before."""
    interrupter = Interrupter(at)
    before = signal.signal(signal.SIGUSR2, interrupt)
    sys.settrace(interrupter.trace)
    try:
        work()
    except Interruption:
        pass
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGUSR2, before)
    return interrupter.where


def interrupt(*_: object) -> None:
    """An alarm that is set strikes after its interval, and not in what this interruption leads to."""
    _, interval_seconds = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, interval_seconds, interval_seconds)
    raise Interruption
