"""The log of an agent, whose reader may have stopped."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from scaler_protocol.command import threads
from scaler_worker.shell.echo import LIMIT_BYTES, HostEcho


def test_text_is_written_in_order() -> None:
    reader, writer = os.pipe()
    echo = HostEcho()
    for number in range(100):
        echo.write(writer, b"%d\n" % number)
    echo.close()
    echo.close()
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"".join(b"%d\n" % number for number in range(100))


def test_a_reader_that_has_stopped_stops_nobody() -> None:
    reader, writer = os.pipe()
    echo = HostEcho()
    echo.write(-1, b"to a descriptor that is closed")  # while nothing was left out: the line about that is to be read
    for _ in range(LIMIT_BYTES // 1024 * 3):
        echo.write(writer, b"x" * 1023 + b"\n")
    text = b""
    while b"bytes of output were left out" not in text:
        text += os.read(reader, 1 << 20)
        echo.write(writer, b"later\n")
    assert len(text) < 2 * LIMIT_BYTES
    os.close(reader)
    echo.close()
    os.close(writer)


def test_nothing_is_written_after_the_end() -> None:
    echo = HostEcho()
    echo.close()
    echo.write(1, b"late")


def test_a_host_that_allows_no_thread_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    reader, writer = os.pipe()
    echo = HostEcho()
    with monkeypatch.context() as patched:
        patched.setattr(threads, "start_new_thread", refuse)
        echo.write(writer, b"early ")
    echo.write(writer, b"late")
    echo.close()
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"early late"


def test_a_thread_that_never_runs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has found no memory for its first steps."""
    monkeypatch.setattr(threads, "start_new_thread", lambda *arguments: 0)
    reader, writer = os.pipe()
    echo = HostEcho()
    for _ in range(LIMIT_BYTES // 1024 * 2):
        echo.write(writer, bytes(1024))
    echo.close()
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b""
