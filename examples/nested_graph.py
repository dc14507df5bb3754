"""A node of a graph that runs a graph of its own, on a single worker."""

from __future__ import annotations

import operator

from scaler import Client, SchedulerClusterCombo


def sum_of_squares(client: Client, count: int) -> int:
    """Add the squares as a tree: squares in pairs, pairs of pairs, and so on."""
    graph: dict[str, object] = {"two": 2}
    names = []
    for number in range(count):
        graph[f"number {number}"] = number
        graph[f"square {number}"] = (operator.pow, f"number {number}", "two")
        names.append(f"square {number}")
    while len(names) > 1:
        pairs = list(zip(names[::2], names[1::2], strict=False))
        for left, right in pairs:
            graph[f"({left} + {right})"] = (operator.add, left, right)
        names = [f"({left} + {right})" for left, right in pairs] + names[2 * len(pairs) :]
    return client.get(graph, names)[names[0]]


def main() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        graph = {
            "client": client,
            "ten": 10,
            "twenty": 20,
            "small": (sum_of_squares, "client", "ten"),
            "large": (sum_of_squares, "client", "twenty"),
            "difference": (operator.sub, "large", "small"),
        }
        print(client.get(graph, ["small", "large", "difference"]))


if __name__ == "__main__":
    main()
