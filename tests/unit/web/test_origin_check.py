"""Who may look: names and origins of requests."""

from __future__ import annotations

import pytest

from scaler_scheduler.web.origin_check import OriginCheck

CHECK = OriginCheck(("127.0.0.1", "build-7", "Monitor.example.org."))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:50001",
        "localhost:50001",
        "LOCALHOST",
        "localhost:9000",
        "[::1]:50001",
        "10.1.2.3:50001",
        "build-7:50001",
        "monitor.example.org",
        "monitor.example.org.:50001",
    ],
)
def test_addresses_in_numbers_and_known_names_are_answered(host: str) -> None:
    assert CHECK.allows_host(host)


@pytest.mark.parametrize(
    "host",
    ["", ":50001", "evil.example:50001", "127.0.0.1.evil.example", "localhost.evil.example", "user@", "[::1", "a:b:c"],
)
def test_other_names_are_refused(host: str) -> None:
    assert not CHECK.allows_host(host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:50001", "127.0.0.1:50001"),
        ("http://localhost:9000", "localhost:9000"),
        ("http://[::1]:50001", "[::1]:50001"),
        ("https://monitor.example.org", "monitor.example.org"),
    ],
)
def test_the_own_page_may_connect(origin: str, host: str) -> None:
    assert CHECK.allows_origin(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "127.0.0.1:50001"),
        ("null", "127.0.0.1:50001"),
        ("", "127.0.0.1:50001"),
        ("http://evil.example", "127.0.0.1:50001"),
        ("http://127.0.0.1:8000", "127.0.0.1:50001"),
        ("http://localhost:50001", "127.0.0.1:50001"),
        ("http://evil.example", "evil.example"),
        ("http://127.0.0.1:50001.evil.example", "127.0.0.1:50001"),
    ],
)
def test_other_pages_may_not(origin: str | None, host: str) -> None:
    assert not CHECK.allows_origin(origin, host)
