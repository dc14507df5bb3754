"""One run of one workload on one peer, in that peer's interpreter: prints its figures as the last line, as JSON."""

from __future__ import annotations

import json
import sys

from benchmarks.workloads.catalogue import WORKLOADS, run


def main(arguments: list[str]) -> None:
    workload, peer, size, workers = arguments
    figures = run(WORKLOADS[workload], peer, int(size), int(workers))
    print("\n" + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
