"""What the Symphony agent's core wants done, beside the effects of every agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """One execution of one task, with everything it needs beside the shim that runs it. ``slots`` are its positional
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
    """Give ``call`` to the open session. ``number`` names this execution for ever: no other has it."""

    number: int
    session: int
    call: Call


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Open a session with this number, and report ``on_session_opened`` or ``on_session_failed``."""

    session: int
