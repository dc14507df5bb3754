"""Cancel tasks that wait and tasks that run."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError

from scaler import Client, SchedulerClusterCombo


def spin() -> None:
    while True:
        pass


def main() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        running = client.submit(spin)
        waiting = client.submit(spin)
        client.submit(abs, 0)  # behind both
        started = time.monotonic()
        print(f"cancelled: {running.cancel()}, {waiting.cancel()}")
        try:
            running.result()
        except CancelledError:
            print("the endless loop is cancelled")
        print(f"the worker is free again: {client.submit(abs, -7).result()}")
        print(f"all within {max(1, round(time.monotonic() - started))} s")


if __name__ == "__main__":
    main()
