"""A graph of calls: what depends on nothing runs at once, results stay with the workers until the last call that needs
them has ended."""

from __future__ import annotations

import operator

from scaler import Client, SchedulerClusterCombo


def describe(total: int, product: int) -> str:
    return f"sum {total}, product {product}"


def main() -> None:
    graph = {
        "a": 6,
        "b": 7,
        "total": (operator.add, "a", "b"),  # a call: a function, and the names of its arguments
        "product": (operator.mul, "a", "b"),
        "text": (describe, "total", "product"),
        "unused": (operator.truediv, "a", "a"),  # no key needs it: it never runs
    }
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        print(client.get(graph, ["text", "product"]))

        futures = client.get(graph, ["total", "text"], block=False)
        print("as futures:", futures["text"].result(), "and", futures["total"].result())


if __name__ == "__main__":
    main()
