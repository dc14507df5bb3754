"""Addresses as users write them: parsed, or refused with a sentence.

A parsed address is written, and parsing it again gives the same address.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.address import default_monitor_address, parse_address, parse_watched_address

LONGEST_INPUT_BYTES = 300


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        parsed = parse_address(text)
    except ValueError as error:
        assert str(error)
        return
    assert parse_address(str(parsed)) == parsed
    assert isinstance(parsed.is_local, bool)
    monitor = default_monitor_address(parsed)
    assert monitor.startswith("ipc://")
    try:
        parse_watched_address(text)
    except ValueError:
        assert parsed.scheme == "inproc"


def seeds() -> Iterator[bytes]:
    texts = "tcp://127.0.0.1:2345", "tcp://[::1]:0", "tcp://*:5", "tcp://host.name:65535", "ipc:///tmp/a", "ipc://@a"
    yield from (text.encode() for text in (*texts, "inproc://name", "http://x", "tcp://", "tcp://a:b", ""))
