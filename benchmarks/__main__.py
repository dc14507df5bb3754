"""``python -m benchmarks``: every workload for Scaler and its peers, interleaved, several runs, medians.

``python -m benchmarks hosts`` runs workloads between hosts (see ``between_hosts``), ``python -m
benchmarks fleet`` measures a scheduler with many agents (see ``fleet``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks import between_hosts, fleet
from benchmarks.competitors import busy_machine
from benchmarks.environments import ROOT, interpreter_of
from benchmarks.peers.catalogue import ALWAYS, PEERS, Competitor
from benchmarks.plots import write_plots
from benchmarks.report import Runs, lines_of, summarise, write_json
from benchmarks.workloads.catalogue import DEFAULT, WORKLOADS, Workload

RUN_TIMEOUT_SECONDS = 900


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(DEFAULT), help=f"of {', '.join(WORKLOADS)}; or 'all'")
    parser.add_argument("--peers", default=",".join(ALWAYS), help=f"comma separated, of {', '.join(PEERS)}; or 'all'")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full number of tasks")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "scaler-benchmarks")
    parser.add_argument("--json", type=Path, help="write the summary here")
    parser.add_argument("--plots", type=Path, help="write a plot per workload into this directory (needs matplotlib)")
    parser.add_argument(
        "--competitors", type=int, default=0, help="processes that compete for the processors meanwhile"
    )
    arguments = parser.parse_args()
    if arguments.workloads == ["all"]:
        arguments.workloads = list(WORKLOADS)
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    return arguments


def size_for(workload: Workload, peer: Competitor, scale: float) -> int:
    """Return as many tasks as the peer does in the workload's time, at most the full number."""
    if workload.size <= 0:
        return 0
    rate = min(peer.rate, 4_000) if workload.name == "latency" else peer.rate
    return max(20, int(scale * min(workload.size, rate * workload.seconds)))


def run_once(workload: Workload, peer: Competitor, arguments: argparse.Namespace) -> dict[str, float] | None:
    """Figures of one run; None, and a line that says why, when the peer failed."""
    size = size_for(workload, peer, arguments.scale)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [interpreter_of(peer, arguments.environments), "-m", "benchmarks.driver", workload.name, peer.name]
    finished = subprocess.run(
        [*command, str(size), str(arguments.workers)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_SECONDS,
    )
    if finished.returncode:
        print(f"{workload.title} on {peer.title} failed: {finished.stderr.strip().splitlines()[-1]}", flush=True)
        return None
    return json.loads(finished.stdout.strip().splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] in (["hosts"], ["fleet"]):
        (fleet if sys.argv[1] == "fleet" else between_hosts).main(sys.argv[2:])
        return
    arguments = parse_arguments()
    names = list(PEERS) if arguments.peers == "all" else arguments.peers.split(",")
    peers = [PEERS[name] for name in names]
    with busy_machine(arguments.competitors):
        runs = run_all(arguments, peers)
    summary = summarise(runs)
    if arguments.json:
        write_json(summary, arguments.json)
    if arguments.plots:
        write_plots(summary, arguments.plots)


def run_all(arguments: argparse.Namespace, peers: list[Competitor]) -> Runs:
    runs: Runs = defaultdict(list)
    for name in arguments.workloads:
        workload = WORKLOADS[name]
        for _ in range(arguments.runs):
            for peer in [PEERS["scaler_here"]] if workload.only_here else peers:
                figures = run_once(workload, peer, arguments)
                if figures is not None:
                    runs[name, peer.name].append(figures)
        print("\n".join(lines_of(summarise({key: runs[key] for key in runs if key[0] == name}))), flush=True)
    return runs


if __name__ == "__main__":
    main()
