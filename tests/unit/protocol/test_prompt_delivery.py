"""Options of TCP connections for messages that should not wait."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from scaler_protocol.transport import prompt_delivery


@pytest.fixture
def connected() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as made:
        yield made


def option(connected: socket.socket, number: int) -> int:
    return connected.getsockopt(socket.IPPROTO_TCP, number)


def test_small_messages_go_at_once(connected: socket.socket) -> None:
    prompt_delivery.deliver_promptly(connected)
    assert option(connected, socket.TCP_NODELAY)


def test_what_is_lost_goes_again_sooner_than_usual(connected: socket.socket) -> None:
    try:
        usual = option(connected, prompt_delivery.TCP_RTO_MIN_US)
    except OSError:
        pytest.skip("this kernel has no such option")
    prompt_delivery.deliver_promptly(connected)
    assert 40_000 < option(connected, prompt_delivery.TCP_RTO_MIN_US) < usual


def test_a_kernel_without_that_option_is_enough(connected: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_delivery, "TCP_RTO_MIN_US", 9999)
    prompt_delivery.deliver_promptly(connected)
    assert option(connected, socket.TCP_NODELAY)
