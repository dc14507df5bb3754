from __future__ import annotations

import random

import pytest

from scaler_protocol.link import ACKNOWLEDGEMENT_LIMIT, Link, LinkGap
from scaler_protocol.messages import Acknowledgement, Envelope, Ping, Withdraw


def test_numbers_and_acknowledgements() -> None:
    arrived: list[int] = []
    one, other = Link(lambda envelope: arrived.append(envelope.sequence)), Link()
    sent = [one.wrap(Withdraw(index)) for index in range(3)]
    assert [envelope.sequence for envelope in sent] == [1, 2, 3] and one.in_flight == 3
    assert all(other.accept(envelope) for envelope in sent)
    assert other.owes_acknowledgement
    answer = other.wrap(Acknowledgement())
    assert (answer.sequence, answer.acknowledged) == (0, 3) and not other.owes_acknowledgement
    assert one.accept(answer)
    assert arrived == [1, 2, 3] and one.in_flight == 0


def test_what_came_already_is_dropped_and_a_gap_is_told() -> None:
    one, other = Link(), Link()
    first, second, third = (one.wrap(Withdraw(index)) for index in range(3))
    assert other.accept(first) and not other.accept(first)
    with pytest.raises(LinkGap):
        other.accept(third)
    assert other.accept(second) and other.accept(third) and other.received == 3


def test_unnumbered_bodies_pass_and_are_not_kept() -> None:
    one, other = Link(), Link()
    one.wrap(Withdraw(1))
    ping = one.wrap(Ping())
    assert ping.sequence == 0 and one.in_flight == 1
    assert other.accept(ping) and other.accept(ping) and not other.owes_acknowledgement


def test_an_acknowledgement_travels_alone_after_a_while_or_many_messages() -> None:
    one, other = Link(), Link()
    assert other.acknowledgement_at(5.0) is None
    other.accept(one.wrap(Withdraw(0)))
    assert other.acknowledgement_at(5.0, 0.5) == 5.5 and other.acknowledgement_at(5.2, 0.5) == 5.5
    for index in range(ACKNOWLEDGEMENT_LIMIT - 1):
        other.accept(one.wrap(Withdraw(index)))
    assert other.acknowledgement_at(5.3) == 5.3
    other.wrap(Acknowledgement())
    assert other.acknowledgement_at(6.0) is None
    other.accept(one.wrap(Withdraw(0)))
    assert other.acknowledgement_at(7.0, 0.5) == 7.5


def test_resume_sends_the_rest_again_with_the_newest_acknowledgement() -> None:
    one, other = Link(), Link()
    sent = [one.wrap(Withdraw(index)) for index in range(5)]
    other.accept(sent[0])
    other.accept(sent[1])
    one.accept(Envelope(Withdraw(9), 1, 0))
    again = one.resume(other.received)
    assert [envelope.sequence for envelope in again] == [3, 4, 5]
    assert [envelope.acknowledged for envelope in again] == [1, 1, 1] and not one.owes_acknowledgement
    assert all(other.accept(envelope) for envelope in again)


def test_a_foolish_acknowledgement_does_no_harm() -> None:
    one = Link()
    one.wrap(Withdraw(1))
    one.acknowledge(99)
    assert one.wrap(Withdraw(2)).sequence == 2 and one.in_flight == 1
    one.check()


@pytest.mark.parametrize("seed", range(30))
def test_everything_arrives_once_and_in_order_over_connections_that_are_cut(seed: int) -> None:
    """Each connection delivers a prefix of what was sent in it; then both resume."""
    chance = random.Random(seed)
    links = Link(), Link()
    sent: tuple[list[int], list[int]] = ([], [])
    got: tuple[list[int], list[int]] = ([], [])
    wires: tuple[list[Envelope], list[Envelope]] = ([], [])

    def deliver(side: int) -> None:
        if wires[side] and links[1 - side].accept(envelope := wires[side].pop(0)) and envelope.sequence:
            assert isinstance(envelope.body, Withdraw)
            got[1 - side].append(envelope.body.count)

    def cut() -> None:
        received = links[0].received, links[1].received
        for side in (0, 1):
            wires[side][:] = links[side].resume(received[1 - side])

    for step in range(1000):
        side = chance.randrange(2)
        action = chance.random()
        if action < 0.4:
            sent[side].append(step)
            wires[side].append(links[side].wrap(Withdraw(step)))
        elif action < 0.95:
            deliver(side)
        else:
            cut()
        links[side].check()
    cut()
    while wires[0] or wires[1]:
        deliver(0)
        deliver(1)
    assert got == (sent[1], sent[0])
