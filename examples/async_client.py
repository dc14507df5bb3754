"""Scaler in an asyncio program: many calls at once, a stream of results, a time limit, and a group of tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from scaler import AsyncClient, SchedulerClusterCombo


def square(number: int) -> int:
    return number * number


async def numbers() -> AsyncIterator[int]:
    """Yield numbers like a web socket."""
    for number in range(1000):
        yield number
        await asyncio.sleep(0.001)


async def use(client: AsyncClient) -> None:
    async with asyncio.TaskGroup() as group:
        pages = [group.create_task(client.run(square, page)) for page in range(1, 7)]
    print(f"{len(pages)} pages: {[page.result() for page in pages]}")

    squares = []
    async for result in client.imap(square, numbers(), buffer_size=10):
        squares.append(result)
        if len(squares) == 4:
            break
    print("first squares:", *squares)

    try:
        async with asyncio.timeout(0.2):
            await client.submit(time.sleep, 3600)
    except TimeoutError:
        print("stopped after 0.2 s")
    print(f"the worker is free again: {await client.submit(abs, -7)}")


async def main(address: str) -> None:
    async with AsyncClient(address) as client:
        await use(client)


if __name__ == "__main__":
    with SchedulerClusterCombo(n_workers=1) as cluster:
        asyncio.run(main(cluster.get_address()))
