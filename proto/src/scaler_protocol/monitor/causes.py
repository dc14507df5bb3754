"""The causes that make failures alike: how they ended, the type of the exception, the line that raised it, and its
message without the values in it."""

from __future__ import annotations

import re
from typing import NamedTuple

from scaler_protocol.messages import Status
from scaler_protocol.monitor.bounds import shown_text

_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+), in (\S+)', re.MULTILINE)
_QUOTED = re.compile(r"""(?<!\w)[bBrRuUfF]{0,2}(?:'[^']*(?:'(?!\w)|$)|"[^"]*(?:"(?!\w)|$)|`[^`]*(?:`|$))""")
_IDENTIFIER = re.compile(
    r"\b(?:0[xX][0-9a-fA-F]+|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|(?=[a-fA-F]*\d)[0-9a-fA-F]{8,})\b"
)
_NUMBER = re.compile(r"(?:(?<!\w)[-+])?\d+(?:[.,_]\d+)*(?:[eE][-+]?\d+)?")


class Cause(NamedTuple):
    """The properties that similar failures share."""

    status: int
    type: str
    place: str
    """``file:line in function`` that raised the exception; empty when there is no traceback."""

    message: str
    """The first line of the message, masked."""

    @property
    def short_place(self) -> str:
        """``place`` without the folders of the file."""
        return self.place.rpartition("/")[2]


class CauseKind(NamedTuple):
    """The properties that causes share if only their messages differ."""

    status: int
    type: str
    place: str


def cause_of(status: int, type_name: str, message: str, details: str) -> Cause:
    """``message`` is one line."""
    shown = shown_text(message)
    if status == Status.PROCESSOR_DIED:  # its signal or exit code says what kind of death it was
        return Cause(status, shown_text(type_name), "", shown)
    return Cause(status, shown_text(type_name), place_of(details), masked(shown))


def kind_of(cause: Cause) -> CauseKind:
    return CauseKind(cause.status, cause.type, cause.place)


def masked(text: str) -> str:
    """``text`` with ``'…'`` for what is quoted, ``<id>`` for UUIDs and hexadecimal words, and ``#`` for numbers."""
    text = _IDENTIFIER.sub("<id>", _QUOTED.sub("'…'", text))
    return _NUMBER.sub("#", text)


def place_of(traceback: str) -> str:
    """The innermost frame of a formatted traceback."""
    frames = _FRAME.findall(traceback)
    return shown_text("{}:{} in {}".format(*frames[-1])) if frames else ""
