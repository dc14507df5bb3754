"""Futures in the order they finish, with callbacks, time limits and errors."""

from __future__ import annotations

import time
from concurrent.futures import Future, as_completed

from scaler import Client, SchedulerClusterCombo


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def divide(numerator: float, denominator: float) -> float:
    return numerator / denominator


def announce(future: Future[float]) -> None:
    print(f"callback: a nap of {future.result()} s is over")


def main() -> None:
    with SchedulerClusterCombo(n_workers=3) as cluster, Client(cluster.get_address()) as client:
        naps = [client.submit(nap, seconds) for seconds in (0.3, 0.1, 0.2)]
        naps[0].add_done_callback(announce)
        for future in as_completed(naps):
            print(f"finished: {future.result()} s")

        late = client.submit(nap, 0.5)
        try:
            late.result(timeout=0.05)
        except TimeoutError:
            print("not yet there after 0.05 s; the task goes on")
        late.result()

        error = client.submit(divide, 1, 0).exception()
        print(f"a task failed with {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
