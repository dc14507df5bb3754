"""An address may open a burst of connections, then some per second, apart from those that authenticate."""

from __future__ import annotations

from scaler_protocol.transport.connection_rate import BURST, CONNECTIONS_PER_SECOND, ConnectionRate


def opened(rate: ConnectionRate, address: str, count: int, now: float) -> None:
    for _ in range(count):
        rate.add(address, now)


def test_a_burst_is_within_the_rate() -> None:
    rate = ConnectionRate()
    opened(rate, "10.0.0.1", BURST, 5.0)
    assert rate.over(5.0) == frozenset() and rate.next_deadline() is None


def test_an_address_that_is_over_its_rate_waits_for_its_tokens() -> None:
    rate = ConnectionRate()
    opened(rate, "10.0.0.1", BURST + 50, 5.0)
    opened(rate, "10.0.0.2", BURST, 5.0)
    assert rate.over(5.0) == {"10.0.0.1"}
    assert rate.next_deadline() == 5.0 + 50 / CONNECTIONS_PER_SECOND
    assert rate.over(5.19) == {"10.0.0.1"}
    assert rate.over(5.2) == frozenset() and rate.next_deadline() is None


def test_more_connections_extend_the_time() -> None:
    rate = ConnectionRate()
    opened(rate, "10.0.0.1", BURST + 50, 5.0)
    opened(rate, "10.0.0.1", 25, 5.1)
    assert rate.over(5.2) == {"10.0.0.1"} and rate.over(5.31) == frozenset()


def test_connections_that_authenticate_do_not_count() -> None:
    """As many peers as there are may come back after a restart."""
    rate = ConnectionRate()
    opened(rate, "10.0.0.1", BURST + 2, 5.0)
    rate.give_back("10.0.0.1")
    assert rate.over(5.0) == {"10.0.0.1"}
    rate.give_back("10.0.0.1")
    assert rate.over(5.0) == frozenset()
    for _ in range(3 * BURST):
        rate.add("10.0.0.1", 5.0)
        rate.give_back("10.0.0.1")
    assert rate.over(5.0) == frozenset()


def test_tokens_do_not_pile_up() -> None:
    rate = ConnectionRate()
    opened(rate, "10.0.0.1", 1, 5.0)
    opened(rate, "10.0.0.1", BURST + 1, 5000.0)
    assert rate.over(5000.0) == {"10.0.0.1"}


def test_addresses_are_forgotten() -> None:
    rate = ConnectionRate()
    for number in range(10_000):
        rate.add(f"10.1.{number // 256}.{number % 256}", 5.0)
    opened(rate, "10.1.0.1", BURST, 5.0)
    assert rate.over(5.0) == frozenset()
