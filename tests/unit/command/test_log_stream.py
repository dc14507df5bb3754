"""The log of a command, whose reader may stop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from scaler_protocol.command import log_stream
from scaler_protocol.command.log_stream import LogStream


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, TextIO]]:
    monkeypatch.setattr(log_stream, "PATIENCE_SECONDS", 0)
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as stream:
        yield reader, stream
    os.close(reader)


def fill(stream: LogStream) -> int:
    """Write lines until the first ones are left out; return how many."""
    count = 0
    while not stream._left_out:
        stream.write(f"line {count}\n")
        count += 1
    return count


def read_now(reader: int) -> str:
    return os.read(reader, 1 << 20).decode()


def test_what_finds_no_room_is_left_out_and_told_of(pipe: tuple[int, TextIO]) -> None:
    reader, file = pipe
    stream = LogStream(file)
    count = fill(stream)
    for _ in range(9):
        stream.write("another line\n")
    text = read_now(reader)
    stream.write("the last line\n")
    lines = (text + read_now(reader)).splitlines()
    assert lines[: count - 1] == [f"line {number}" for number in range(count - 1)]
    assert lines[count - 1 :] == [
        "[10 lines of the log were left out, because nothing read them]",
        "the last line",
    ]


def test_a_line_that_is_longer_than_the_pipe_is_completed_later(pipe: tuple[int, TextIO]) -> None:
    reader, file = pipe
    stream = LogStream(file)
    long = "x" * 200_000 + "\n"
    stream.write(long)
    text = ""
    while len(text) < len(long):
        text += read_now(reader)
        stream.write("later\n")
    assert text.startswith(long)


def test_the_descriptor_of_others_waits_as_before(pipe: tuple[int, TextIO]) -> None:
    _, file = pipe
    fill(LogStream(file))
    assert os.get_blocking(file.fileno())


def test_characters_that_the_stream_cannot_encode_are_escaped() -> None:
    reader, writer = os.pipe()
    with open(writer, "w", encoding="ascii") as file:
        LogStream(file).write("é\n")
        assert os.read(reader, 100) == b"\\xe9\n"
    os.close(reader)


def test_a_reader_that_has_gone_is_an_error_of_the_line_only() -> None:
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as file:
        stream = LogStream(file)
        os.close(reader)
        with pytest.raises(BrokenPipeError):
            stream.write("a line\n")
