"""Tracebacks as users want to see them: without the frames of Scaler that led to their code."""

from __future__ import annotations

import dis
from types import TracebackType

INTERNAL_PACKAGES = frozenset({"scaler", "scaler_protocol", "scaler_worker", "cloudpickle", "pickle"})


_RAISE = dis.opmap["RAISE_VARARGS"]


def hide_internals(error: BaseException, is_told: bool = False) -> None:
    """Leave the user's part of the traceback of ``error``, which is being handled: a ``raise`` alone then adds nothing.
    All of it stays when this package has failed by accident (not by a raise statement, nor with what ``is_told`` to the
    user on purpose): its frames tell where. So does that of an interruption."""
    trace = user_part(error.__traceback__)
    if isinstance(error, Exception) and (is_told or trace is not None or _is_deliberate(error)):
        error.__traceback__ = trace


def _is_deliberate(error: BaseException) -> bool:
    trace = error.__traceback__
    if trace is None or isinstance(error, AssertionError):
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code.co_code
    return 0 <= trace.tb_lasti < len(code) and code[trace.tb_lasti] == _RAISE


def user_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame of user code on, or None if there is no such frame."""
    while trace is not None and _is_internal(trace):
        trace = trace.tb_next
    return trace


def _is_internal(trace: TracebackType) -> bool:
    module = trace.tb_frame.f_globals.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] in INTERNAL_PACKAGES
