"""Leaving, and coming back: clients come and go, the cluster stays."""

from __future__ import annotations

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ClientQuitException


def main() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster:
        client = Client(cluster.get_address())
        print(f"first client: {client.submit(abs, -1).result()}")
        client.disconnect()
        try:
            client.submit(abs, -2)
        except ClientQuitException as error:
            print(f"after it left: {error}")
        with Client(cluster.get_address()) as another:
            print(f"another client: {another.submit(abs, -3).result()}")


if __name__ == "__main__":
    main()
