"""One call on a worker."""

from __future__ import annotations

import math

from scaler import Client, SchedulerClusterCombo


def main() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        future = client.submit(math.sqrt, 16)
        print(f"the square root of 16 is {future.result()}")


if __name__ == "__main__":
    main()
