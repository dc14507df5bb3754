"""Ctrl-C at each point where Python looks for signals: no future is lost, and the client goes on."""

from __future__ import annotations

import contextlib
import operator
from functools import partial

import pytest

from scaler import Client, ScalerFuture
from scaler_protocol.codec import decode
from scaler_protocol.messages import Results
from tests.unit.client.fake_scheduler import BreakingScheduler, FakeScheduler, ReplayingScheduler
from tests.unit.client.interrupter import interrupted


def lost(scheduler: FakeScheduler, at: int) -> tuple[str, list[str]]:
    """Where the call was interrupted, and what did not end well after that."""
    futures: list[ScalerFuture] = []

    def work() -> None:
        for value in range(3):
            future = client.submit(operator.neg, value)
            futures.append(future)
            if value % 2:
                future.add_done_callback(lambda _: None)
        for future in futures:
            future.result(5)

    troubles = []
    with Client(scheduler.address) as client:
        client.submit(operator.neg, 1).result(5)
        where = interrupted(work, at)
        futures.append(client.submit(operator.neg, len(futures)))
        for value, future in enumerate(futures):
            try:
                assert future.result(20) == -value
            except BaseException as error:
                troubles.append(f"{where}: {value} {error!r}")
    return where, troubles


@pytest.mark.timeout(120)
def test_no_future_is_lost_wherever_a_call_is_interrupted() -> None:
    troubles: list[str] = []
    with ReplayingScheduler() as scheduler:
        for at in range(1, 5000):
            where, found = lost(scheduler, at)
            troubles += found
            if not where or len(troubles) > 5:
                break
    assert not troubles


@pytest.mark.timeout(120)
def test_the_client_goes_on_wherever_a_look_at_a_future_is_interrupted() -> None:
    with ReplayingScheduler() as scheduler:
        for at in range(1, 5000):
            with Client(scheduler.address) as client:
                future = client.submit(operator.neg, 1)
                where = interrupted(future.done, at)
                assert future.result(20) == -1, where
            if not where:
                break


@pytest.mark.timeout(120)
def test_the_client_reconnects_wherever_its_wait_is_interrupted_meanwhile() -> None:
    """Every seventh point: each costs a connection that ends and another one."""
    with BreakingScheduler() as scheduler:
        for at in range(1, 5000, 7):
            futures: list[ScalerFuture] = []
            with Client(scheduler.address) as client:
                where = interrupted(partial(wait_for_one, client, futures), at)
                assert [future.result(20) for future in futures] == [-1] * len(futures), where
            if not where:
                break


def wait_for_one(client: Client, futures: list[ScalerFuture]) -> None:
    futures.append(client.submit(operator.neg, 1))
    futures[0].result(5)


@pytest.mark.timeout(120)
def test_results_for_which_there_was_no_memory_are_received_later(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = []

    def decode_later(frames):
        envelope = decode(frames)
        if isinstance(envelope.body, Results) and not lost:
            lost.append(envelope)
            raise MemoryError
        return envelope

    with ReplayingScheduler() as scheduler, Client(scheduler.address) as client:
        client.submit(operator.neg, 1).result(5)
        monkeypatch.setattr("scaler.shell.client_io.decode", decode_later)
        future = client.submit(operator.neg, 2)
        with contextlib.suppress(MemoryError):  # whichever thread reads gets it
            future.result(20)
        assert lost
        assert future.result(20) == -2
