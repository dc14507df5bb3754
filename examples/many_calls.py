"""Many calls at once: map, starmap and imap."""

from __future__ import annotations

import itertools
import math

from scaler import Client, SchedulerClusterCombo


def main() -> None:
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        roots = client.map(math.sqrt, range(100_000))
        print(f"sum of 100,000 roots: {sum(roots):,.2f}")

        powers = client.starmap(pow, [(2, 10), (3, 5), (10, 3)])
        print(f"powers: {powers}")

        # imap takes its input as it goes, so the input may be endless.
        squares = client.imap(math.sqrt, itertools.count())
        print(f"first roots: {[round(root, 2) for root in itertools.islice(squares, 5)]}")


if __name__ == "__main__":
    main()
