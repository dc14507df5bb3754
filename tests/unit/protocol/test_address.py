from __future__ import annotations

import pytest

from scaler_protocol.address import Address, default_monitor_address, parse_address, parse_watched_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcp://127.0.0.1:2345", Address("tcp", host="127.0.0.1", port=2345)),
        ("tcp://*:0", Address("tcp", host="*", port=0)),
        ("tcp://a.b-c.example:65535", Address("tcp", host="a.b-c.example", port=65535)),
        ("tcp://[::1]:2345", Address("tcp", host="::1", port=2345)),
        ("ipc:///tmp/socket", Address("ipc", path="/tmp/socket")),
        ("ipc://@abstract", Address("ipc", path="@abstract")),
        ("inproc://name", Address("inproc", path="name")),
    ],
)
def test_addresses_are_read_and_written_back(text: str, expected: Address) -> None:
    assert parse_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not an address"),
        ("127.0.0.1:2345", "is not an address"),
        ("http://host:80", "unknown scheme 'http'"),
        ("tcp://host", "has no port"),
        ("tcp://:2345", "has no port"),
        ("tcp://host:", "has the port ''"),
        ("tcp://host:65536", "has the port '65536'"),
        ("tcp://host:-1", "has the port '-1'"),
        ("tcp://host:２", "has the port"),
        ("tcp://::1:2345", "without brackets"),
        ("tcp://a b:1", "not a valid host name"),
        ("tcp://host/path:1", "not a valid host name"),
        ("ipc://", "has no path"),
        ("ipc://" + "x" * 108, "too long"),
        ("inproc://", "has no name"),
    ],
)
def test_bad_addresses_are_told_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_address(text)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".") and repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tcp://127.8.9.1:1", True),
        ("tcp://localhost:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://0.0.0.0:1", False),
        ("tcp://*:1", False),
        ("tcp://[::]:1", False),
        ("tcp://192.168.1.1:1", False),
        ("tcp://localhost.example.org:1", False),
        ("tcp://127.0.0.1.example.org:1", False),
        ("ipc:///tmp/x", True),
        ("inproc://x", True),
    ],
)
def test_what_only_this_machine_reaches(text: str, local: bool) -> None:
    assert parse_address(text).is_local is local


@pytest.mark.parametrize(
    ("text", "monitor"),
    [
        ("tcp://127.0.0.1:2345", "ipc:///tmp/127.0.0.1_2345_monitor"),
        ("tcp://*:2345", "ipc:///tmp/any_2345_monitor"),
        ("tcp://[::1]:2345", "ipc:///tmp/__1_2345_monitor"),
        ("ipc:///tmp/x", "ipc:///tmp/x_monitor"),
        ("inproc://x", "ipc:///tmp/inproc_x_monitor"),
    ],
)
def test_default_monitor_address(text: str, monitor: str) -> None:
    assert default_monitor_address(text) == monitor
    assert default_monitor_address(parse_address(text)) == monitor
    assert parse_address(monitor).scheme == "ipc"


def test_what_a_monitor_cannot_watch_is_told_in_one_sentence() -> None:
    assert parse_watched_address("tcp://127.0.0.1:2345") == Address("tcp", host="127.0.0.1", port=2345)
    with pytest.raises(ValueError, match="Cannot watch 'inproc://x': it cannot be reached from another process"):
        parse_watched_address("inproc://x")
    with pytest.raises(ValueError, match="is not an address"):
        parse_watched_address("nonsense")
