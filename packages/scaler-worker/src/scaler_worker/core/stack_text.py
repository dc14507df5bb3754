"""The stack of a worker process as a person reads it."""

from __future__ import annotations

_OWN_FRAMES = ("/scaler_worker/worker_process/", '"<frozen runpy>"')
_CUT_TEXT = "  ... {} characters are left out ..."

STACK_LIMIT = 60_000
"""Characters: one message holds no more."""


def shown_stack(text: str) -> str:
    """``text``: as faulthandler writes it. Frames of the worker itself are left out, and threads that have no others;
    of a very long stack, the middle."""
    text = "".join(each if each == "\n" or " " <= each <= "~" else "?" for each in text)
    threads = [_own_frames_removed(part) for part in text.strip().split("\n\n")]
    shown = [each for each in threads if each]
    return _cut("\n\n".join(shown)) if shown else "The task is not running Python code at the moment."


def _own_frames_removed(thread: str) -> str:
    """Empty if no frame is left."""
    title, *frames = thread.splitlines() or [""]
    left = [each for each in frames if not any(own in each for own in _OWN_FRAMES)]
    return "\n".join([title, *left]) if left else ""


def _cut(text: str) -> str:
    if len(text) <= STACK_LIMIT:
        return text
    half = STACK_LIMIT // 2
    return f"{text[:half]}\n{_CUT_TEXT.format(len(text) - 2 * half)}\n{text[-half:]}"
