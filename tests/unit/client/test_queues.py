"""Queues as a client sees them: wherever a call is interrupted, no item is lost and none is there twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler import Client
from scaler.client.queue import Queue
from scaler_protocol.messages import CoordinationKind, Envelope, NamedAction, NamedReply, NamedRequest, NamedState
from tests.support.waiting import wait_until
from tests.unit.client.fake_scheduler import ReplayingScheduler
from tests.unit.client.interrupter import interrupted


class QueueingScheduler(ReplayingScheduler):
    """Has one queue, in which nothing waits."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.last: dict[bytes, int] = {}
        super().__init__()

    def _take(self, peer: bytes, envelope: Envelope) -> None:
        is_new = envelope.sequence > (self._links[peer].received if peer in self._links else 0)
        super()._take(peer, envelope)
        body = envelope.body
        if not isinstance(body, NamedRequest) or not is_new:
            return
        if body.number > self.last.get(peer, 0):
            self.last[peer] = body.number
            self._do(peer, body)

    def _do(self, peer: bytes, body: NamedRequest) -> None:
        state, value = NamedState.DONE, b""
        if body.named_action == NamedAction.WITHDRAW:
            state = NamedState.ENDED
        elif body.named_action == NamedAction.PUT:
            self.items.append(bytes(body.value))
        elif body.named_action == NamedAction.RETURN:
            self.items.insert(0, bytes(body.value))
        elif body.named_action == NamedAction.TAKE:
            value = self.items.pop(0)
        self._say(peer, NamedReply(CoordinationKind.QUEUE, state, body.number, "", value))


@pytest.fixture
def scheduler() -> Iterator[QueueingScheduler]:
    with QueueingScheduler() as running:
        yield running


@pytest.mark.timeout(120)
def test_no_item_is_lost_wherever_a_get_is_interrupted(scheduler: QueueingScheduler) -> None:
    with Client(scheduler.address) as client:
        items = client.queue("name")
        for number in range(3):
            items.put(number)
        expected = list(scheduler.items)
        for at in range(1, 3000):
            taken: list[int] = []
            where = interrupted(lambda taken=taken: take(items, taken), at)  # type: ignore[misc]
            if taken:
                items.put(taken[0])
                expected = [*expected[1:], expected[0]]
            client.queue("other").qsize()  # behind all that was sent before
            wait_until(lambda expected=expected: scheduler.items == expected, 5, where)  # type: ignore[misc]
            if not where:
                return
    raise AssertionError("it does not end")


def take(items: Queue, taken: list[int]) -> None:
    taken.append(items.get())
