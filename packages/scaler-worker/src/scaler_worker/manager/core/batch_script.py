"""The script of a job, and numbers in the units of batch systems."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence

from scaler_worker.termination_notice import STOPPED_CODE

END = "end"
"""A script ends its command cleanly: the manager has asked for it."""

DRAIN = "stopped=yes; end"
"""The same, because the batch system has asked for it, so that the job is replaced."""

NOTE = "stopped=yes"
"""Like ``DRAIN``, where the command gets the same signal from the batch system: a second one would end it at once."""

SIGNAL_MARGIN_SECONDS = 30.0
"""Workers that drain have their grace time, and this long to end."""

_LONGEST_NOTICE_SECONDS = 65_535
_MEBIBYTE = 1 << 20
_TIMER_SIGNAL = "USR2"


def option_words(text: str, program: str, pattern: str, reserved: Sequence[str], form: str) -> tuple[str, ...]:
    """The options in a text that is written as for a shell. ``pattern``: of a word that is an option, whose name is the
    first group. ``reserved``: options that the manager gives, or that it could not work with. Raises ValueError."""
    words = tuple(shlex.split(text))
    for place, word in enumerate(words):
        match = re.fullmatch(pattern, word, re.DOTALL)
        if match is None and place == 0:
            raise ValueError(f"{word!r} is not an option of {program}. Give options as {form}.")
        if match is not None and match[1] in reserved:
            raise ValueError(f"{match[1]} is set by the manager itself. Leave it out.")
    return words


def notice_seconds(grace_seconds: float) -> int:
    """Return how long before its time limit a job is told to drain."""
    return min(math.ceil(grace_seconds + SIGNAL_MARGIN_SECONDS), _LONGEST_NOTICE_SECONDS)


def mebibytes(size_bytes: int | None, workers: int = 1) -> int | None:
    return None if size_bytes is None else math.ceil(workers * size_bytes / _MEBIBYTE)


def minutes(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds / 60)


def job_script(
    command: Sequence[str], setup: str | None, traps: Mapping[str, str], drain_after_seconds: float | None = None
) -> str:
    """The script of a job that runs the command. ``traps``: what it does when a signal comes. Further signals are
    ignored: a second one would end the command at once. The processes of the command ignore USR1 and USR2, which some
    batch systems send to all processes of a job. ``setup``: commands of the shell that run before.
    ``drain_after_seconds``: the workers drain after this long; None: the batch system tells when."""
    lines = [
        "#!/bin/sh",
        *([setup, ""] if setup else []),
        "stopped=",
        "ended=",
        "child=",
        'end() { test -n "$ended" || test -z "$child" || kill -TERM "$child" 2>/dev/null; ended=yes; }',
        *(f"trap '{action}' {number}" for number, action in traps.items()),
        f"(trap '' USR1 USR2; exec {shlex.join(command)}) &",
        "child=$!",
        'test -z "$ended" || kill -TERM "$child" 2>/dev/null',
        *(_timer(drain_after_seconds) if drain_after_seconds is not None else []),
        "while",
        '    wait "$child"',
        "    code=$?",
        '    kill -0 "$child" 2>/dev/null',
        "do :; done",
        *(['kill "$timer" 2>/dev/null'] if drain_after_seconds is not None else []),
        f'test -z "$stopped" || test "$code" != 0 || code={STOPPED_CODE}',
        'exit "$code"',
    ]
    return "\n".join(lines) + "\n"


def _timer(seconds: float) -> list[str]:
    """It leaves no process when the job ends before."""
    return [
        "(",
        "    trap 'kill \"$pause\" 2>/dev/null; exit' TERM",
        "    trap '' USR1 USR2",
        f"    sleep {max(0, math.floor(seconds))} &",
        "    pause=$!",
        f'    wait "$pause" && kill -{_TIMER_SIGNAL} $$',
        ") &",
        "timer=$!",
    ]
