"""The effects of the Symphony agent's core, in addition to those of every agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """One execution of one task, with everything it needs except the shim that runs it. ``slots`` are its positional
    arguments, then one for each of ``keywords``; all of them, and function and serializer, are serialized."""

    function: bytes | bytearray
    function_name: str
    serializer: bytes | bytearray | None
    slots: tuple[bytes | bytearray, ...]
    keywords: tuple[str, ...]
    session: bytes
    task: int
    attempt: int
    depth: int
    profiling: bool
    stream_output: bool


@dataclass(frozen=True, slots=True)
class SendInput:
    """Give ``call`` to the open session. ``number`` names this execution only, and is never used again."""

    number: int
    session: int
    call: Call


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Open a session with this number, and report ``on_session_opened`` or ``on_session_failed``."""

    session: int
