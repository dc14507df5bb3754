"""Output of tasks as text that is safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from scaler_protocol.messages import OutputPiece
from scaler_protocol.monitor.format import format_bytes, printable

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, moves of the cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|[ -/]*[0-~])"
)
_TAB_COLUMNS = 8

STREAM_NAMES = {1: "stdout", 2: "stderr"}


def shown_lines(data: bytes) -> list[str]:
    """The lines of ``data`` without escape sequences. As in a terminal, what follows a carriage return takes the place
    of the line so far. Bytes that are not UTF-8 are replaced, and so are other control characters."""
    text = data.decode("utf-8", "replace").removesuffix("\n")
    return [_shown(line) for line in text.split("\n")] if data else []


def _shown(line: str) -> str:
    if line.isprintable():
        return line
    line = line.rstrip("\r").rpartition("\r")[2]
    return printable(_ESCAPES.sub("", line).expandtabs(_TAB_COLUMNS))


def text_of(pieces: Sequence[OutputPiece], names_tasks: bool) -> str:
    """The pieces as one text. ``names_tasks``: each line begins with function and task."""
    lines: list[str] = []
    for _, same in groupby(pieces, lambda piece: (piece.session, piece.task, piece.attempt, piece.stream)):
        group = list(same)
        prefix = f"{prefix_of(group[0].function, group[0].task)} " if names_tasks else ""
        lines.extend(prefix + line for line in _lines_of(group))
    return "".join(f"{line}\n" for line in lines)


def prefix_of(function: str, task: int) -> str:
    """Make the beginning of a line where those of several tasks are shown."""
    return f"[{printable(function)} {task}]" if function else "[outside of tasks]"


def _lines_of(pieces: Sequence[OutputPiece]) -> Iterator[str]:
    """Join pieces of one stream of one task, which may end within a line."""
    data = b""
    for piece in pieces:
        if piece.left_out:
            yield from shown_lines(data)
            yield f"[{format_bytes(piece.left_out)} of output are left out]"
            data = b""
        data += piece.data
    yield from shown_lines(data)
