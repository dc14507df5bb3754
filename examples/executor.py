"""Use Scaler where code expects an executor of concurrent.futures."""

from __future__ import annotations

import time
from concurrent.futures import Executor, Future

import scaler


def square(value: int) -> int:
    return value * value


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def fill(executor: Executor) -> list[Future[float]]:
    """Code that knows the standard interface only."""
    return [executor.submit(nap, 0.5) for _ in range(20)]


def main() -> None:
    with scaler.Executor(n_workers=1) as executor:
        print(list(executor.map(square, range(5))))
        naps = fill(executor)
        time.sleep(0.2)
        print(f"a nap that has not started is cancelled: {naps[-1].cancel()}")
        executor.shutdown(cancel_futures=True)  # waits for the first, which runs
    print(f"the first call: {naps[0].result()}")


if __name__ == "__main__":
    main()
