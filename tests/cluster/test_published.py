"""Published values: any client and any task finds them by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from tests.support import functions
from tests.support.commands import start_scheduler
from tests.support.ports import free_address


def test_values_are_found_by_other_clients_and_tasks(combo: SchedulerClusterCombo) -> None:
    def read(name: str) -> Any:
        with Client() as inner:
            return inner.published(name)

    with Client(combo.get_address()) as one:
        one.publish(limits={"a": 1}, self="any name", future=one.submit(functions.square, 3))
    with Client(combo.get_address()) as two:
        assert two.list_published() == ["future", "limits", "self"]
        assert two.published("limits") == {"a": 1} and two.published("self") == "any name"
        assert two.submit(read, "future").result(50) == 9
        for name in two.list_published():
            two.unpublish(name)
        assert two.list_published() == []
        for call in (two.published, two.unpublish):
            with pytest.raises(KeyError, match="limits"):
                call("limits")


def test_all_values_of_a_call_are_published_or_none(client: Client) -> None:
    client.publish(taken=1)
    with pytest.raises(ValueError, match="Cannot publish 'taken': another value has this name. Unpublish it first."):
        client.publish(first=1, taken=2)
    with pytest.raises(ValueError, match="published value 'large': the limit is"):
        client.publish(first=1, large=bytes(300_000))
    with pytest.raises(ZeroDivisionError):
        client.publish(first=1, failed=client.submit(divmod, 1, 0))
    with pytest.raises(TypeError, match="reference"):
        client.publish(first=1, reference=client.send_object(1))
    assert client.list_published() == ["taken"]
    client.unpublish("taken")


@pytest.mark.parametrize(("name", "error"), [("", ValueError), ("é" * 513, ValueError), (5, TypeError)])
def test_names(client: Client, name: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="name of a published value"):
        client.published(name)


def test_coroutines(combo: SchedulerClusterCombo) -> None:
    async def body() -> None:
        async with AsyncClient(combo.get_address()) as client:
            await client.publish(plain=1, future=client.submit(functions.square, 3))
            assert await client.list_published() == ["future", "plain"] and await client.published("future") == 9
            with pytest.raises(ValueError, match="another value"):
                await client.publish(other=1, plain=2)
            for name in ("future", "plain"):
                await client.unpublish(name)
            for call in (client.published, client.unpublish):
                with pytest.raises(KeyError):
                    await call("plain")
            assert await client.list_published() == []

    asyncio.run(asyncio.wait_for(body(), 50))


def test_a_publisher_publishes_again_after_a_restart() -> None:
    address = free_address()
    with start_scheduler(address) as first, Client(address) as client:
        client.publish(kept=1, removed=2)
        client.unpublish("removed")
        with Client(address) as leaving:
            leaving.publish(lost=3)
        assert client.list_published() == ["kept", "lost"]
        first.kill()
        with start_scheduler(address):
            assert client.list_published() == ["kept"] and client.published("kept") == 1
