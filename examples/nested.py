"""A task that submits tasks: recursion, on a single worker."""

from __future__ import annotations

from scaler import Client, SchedulerClusterCombo


def fibonacci(client: Client, number: int) -> int:
    if number < 2:
        return number
    smaller = client.submit(fibonacci, client, number - 1)
    smallest = client.submit(fibonacci, client, number - 2)
    return smaller.result() + smallest.result()


def main() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        print(f"fibonacci(8) = {client.submit(fibonacci, client, 8).result()}")


if __name__ == "__main__":
    main()
