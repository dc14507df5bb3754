"""Variables of the cluster: what one process sets, the others read."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.client.variable import Variable
from scaler.utility.exceptions import DeserializeObjectError, ProcessorDiedError
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


def get(variable: Variable) -> Any:
    return variable.get()


def test_it_has_one_value_everywhere(client: Client, combo: SchedulerClusterCombo) -> None:
    variable = client.variable("one")
    with pytest.raises(TimeoutError, match="The variable 'one' had no value for 0.01 seconds."):
        variable.get(timeout=0.01)
    with pytest.raises(TimeoutError):
        variable.get(0)
    variable.set({"a": [1, None]})
    with Client(combo.get_address()) as other:
        assert other.variable("one").get() == {"a": [1, None]}
        other.variable("one").set(lambda: 5)
    assert variable.get()() == 5
    assert client.submit(get, variable).result(50)() == 5
    variable.delete()
    variable.delete()
    with pytest.raises(TimeoutError):
        variable.get(0)
    assert repr(variable) == "Variable('one')"


def test_tasks_wait_for_a_value_and_lend_their_worker(single_client: Client) -> None:
    variable = single_client.variable("later")
    futures = [single_client.submit(get, variable) for _ in range(3)]
    wait_until(lambda: "waits for the variable 'later'." in single_client.explain(futures[0]))
    single_client.submit(variable.set, 7).result(50)
    assert [future.result(50) for future in futures] == [7, 7, 7]


def test_what_a_task_has_set_outlives_its_process(client: Client) -> None:
    def set_and_die(variable: Variable) -> None:
        variable.set(os.getpid())
        os.kill(os.getpid(), signal.SIGKILL)

    variable = client.variable("survives")
    with pytest.raises(ProcessorDiedError):
        client.submit_verbose(set_and_die, (variable,), rerun=False).result(50)
    assert variable.get(50)


def test_large_values_and_references_are_refused(client: Client) -> None:
    variable = client.variable("large")
    with pytest.raises(ValueError, match=r"the limit is 262144 bytes. Send it with client.send_object\(\)"):
        variable.set(bytes(300_000))
    variable.set(bytes(250_000))
    assert variable.get() == bytes(250_000)
    with pytest.raises(TypeError, match="a reference can be used only where it was made"):
        variable.set(client.send_object(bytes(10_000)))


def test_values_that_cannot_be_sent_or_loaded(client: Client) -> None:
    variable = client.variable("bad")
    future = client.submit(functions.square, 2)
    for value in (future, {"inside": [future]}):
        with pytest.raises(TypeError, match="Cannot put a future into the variable 'bad': .* Put its result, or pass"):
            variable.set(value)
    variable.set(FailsToLoad())
    with pytest.raises(DeserializeObjectError, match="The value of the variable 'bad' could not be loaded: Zero"):
        variable.get()


class FailsToLoad:
    def __reduce__(self) -> tuple[Any, ...]:
        return divide, (1, 0)


def divide(a: int, b: int) -> float:
    return a / b


def test_coroutines(combo: SchedulerClusterCombo, client: Client) -> None:
    async def body() -> None:
        async with AsyncClient(combo.get_address()) as async_client:
            variable = async_client.variable("coroutines")
            waiting = [asyncio.create_task(variable.get()) for _ in range(5)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await variable.get()
            await asyncio.to_thread(client.variable("coroutines").set, "a")
            assert await asyncio.gather(*waiting) == ["a"] * 5
            await variable.set("b")
            assert client.variable("coroutines").get() == "b"
            await variable.delete()
            with pytest.raises(ValueError, match="limit"):
                await variable.set(bytes(300_000))

    asyncio.run(asyncio.wait_for(body(), 50))


def test_a_value_outlives_the_scheduler_while_its_writer_lives() -> None:
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1), Client(address) as client:
        kept, replaced, deleted, lost = (client.variable(name) for name in ("kept", "replaced", "deleted", "lost"))
        kept.set(1)
        replaced.set("old")
        deleted.set(3)
        with Client(address) as leaving, Client(address) as staying:
            leaving.variable("lost").set(4)
            assert lost.get() == 4
            leaving.disconnect()
            staying.variable("replaced").set("new")
            staying.variable("deleted").delete()
            assert lost.get(0) == 4
            future = client.submit(get, client.variable("awaited"))
            wait_until(lambda: "waits for the variable" in client.explain(future))
            first.kill()
            with start_scheduler(address):
                assert (staying.variable("kept").get(50), replaced.get(50)) == (1, "new")
                for gone in (deleted, lost):
                    with pytest.raises(TimeoutError):
                        gone.get(0)
                staying.variable("awaited").set(5)
                assert future.result(50) == 5
