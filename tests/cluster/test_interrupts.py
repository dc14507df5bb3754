"""Ctrl-C while tasks are submitted and results stream in: the call is interrupted, no future is lost."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator

import pytest

from scaler import Client, ScalerFuture

ROUNDS = 40
TASKS = 400


class Interruption(BaseException):
    pass


@pytest.fixture
def interrupting() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.timeout(110)  # kept by the watchdog: the timer and the signal of pytest-timeout are in use here
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that meets a weak reference's end
@pytest.mark.usefixtures("interrupting")
def test_no_future_is_lost_when_its_client_is_interrupted(client: Client) -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        futures: list[ScalerFuture] = []
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.03))
                for number in range(TASKS):
                    futures.append(client.submit(abs, -number))
                for future in futures:
                    future.result(timeout=30)
                time.sleep(0.05)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:
            pass
        assert [future.result(timeout=10) for future in futures] == list(range(len(futures)))


def test_a_callback_waits_for_a_future_of_the_same_message(client: Client) -> None:
    results = []
    first, second = client.submit(abs, -1), client.submit(abs, -2)
    second.add_done_callback(lambda _: None)
    first.add_done_callback(lambda _: results.append(second.result(10)))
    assert client.submit(abs, -3).result(10) == 3 and first.result(10) == 1
    assert second.result(10) == 2
