"""``python -m benchmarks hosts``: scheduler, workers and client on hosts of their own (see ``hosts``).

Also measures what the links between them allow. Needs root."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections import defaultdict
from pathlib import Path

from benchmarks import link_limits
from benchmarks.environments import ROOT, interpreter_of
from benchmarks.hosts import Host, Links, environment, lab
from benchmarks.peers.between_hosts import REMOTE_PEERS, RemotePeer
from benchmarks.peers.catalogue import PEERS
from benchmarks.workloads.catalogue import WORKLOADS

DEFAULT = ("map", "submit", "latency", "array_argument", "array_result")
RUN_TIMEOUT_SECONDS = 300
LIMITS = "limits"

Figures = dict[tuple[str, str, str], list[float]]
"""The values of each run by workload, peer and figure."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hosts", description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(DEFAULT), help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument(
        "--peers", default=f"{LIMITS},insecure,keys", help=f"comma separated, of {LIMITS}, {', '.join(REMOTE_PEERS)}"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-hosts", type=int, default=1)
    parser.add_argument("--bandwidth-bits", type=float, default=0.0, help="of each link, per second; 0: unlimited")
    parser.add_argument("--delay-seconds", type=float, default=0.0, help="of each packet, one way")
    parser.add_argument("--loss", type=float, default=0.0, help="part of the packets that are lost")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the full number of tasks")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "scaler-benchmarks")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.peers.split(",") if name != LIMITS and name not in REMOTE_PEERS]
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {LIMITS}, {', '.join(REMOTE_PEERS)}")
    return parsed


def size_of(workload: str, peer: RemotePeer, scale: float, workers: int) -> int:
    """Return as many tasks as the peer does in the workload's time, at most the full number. Workloads whose size is
    negative get the number of all workers."""
    known = WORKLOADS[workload]
    if known.size < 0:
        return workers
    rate = min(PEERS[peer.catalogue_name].rate, 4_000) if workload == "latency" else PEERS[peer.catalogue_name].rate
    return max(20, int(scale * min(known.size, rate * known.seconds)))


def run_peer(peer: RemotePeer, hosts: list[Host], arguments: argparse.Namespace, figures: Figures) -> None:
    """All workloads on one cluster, each with a client of its own."""
    python = interpreter_of(PEERS[peer.catalogue_name], arguments.environments)
    with peer.start(python, hosts, arguments.workers) as (address, settings):
        for workload in arguments.workloads:
            command = [python, "-m", "benchmarks.peers.between_hosts", peer.name, address, workload]
            size = size_of(workload, peer, arguments.scale, arguments.workers * arguments.worker_hosts)
            finished = subprocess.run(
                [*hosts[2].on(), *command, str(size)],
                cwd=ROOT,
                env=environment(settings),
                capture_output=True,
                text=True,
                timeout=RUN_TIMEOUT_SECONDS,
            )
            if finished.returncode:
                reason = (finished.stderr.strip().splitlines() or ["no output"])[-1]
                print(f"{workload} on {peer.title} failed: {reason}", flush=True)
                continue
            for figure, value in json.loads(finished.stdout.strip().splitlines()[-1]).items():
                figures[workload, peer.title, figure].append(value)


def run_limits(hosts: list[Host], figures: Figures) -> None:
    for name, measured in link_limits.measure(hosts).items():
        for figure, value in measured.items():
            figures[LIMITS, name, figure].append(value)


def lines_of(figures: Figures) -> list[str]:
    lines, last = [], ""
    for (workload, peer, figure), values in sorted(figures.items(), key=lambda item: item[0][0]):
        if workload != last:
            lines.append("\n" + (workload if workload == LIMITS else WORKLOADS[workload].title))
        last = workload
        lines.append(
            f"  {peer:30} {figure:24} {statistics.median(values):14,.2f}"
            f"  ({min(values):,.2f} to {max(values):,.2f}, {len(values)} runs)"
        )
    return lines


def main(given: list[str]) -> None:
    arguments = parse_arguments(given)
    links = Links(arguments.bandwidth_bits, arguments.delay_seconds, arguments.loss)
    figures: Figures = defaultdict(list)
    for _ in range(arguments.runs):
        for name in arguments.peers.split(","):
            with lab(2 + arguments.worker_hosts, links) as hosts:
                if name == LIMITS:
                    run_limits(hosts, figures)
                else:
                    run_peer(REMOTE_PEERS[name], hosts, arguments, figures)
    print("\n".join(lines_of(figures)), flush=True)
    if arguments.json:
        listed = [{"workload": w, "peer": p, "figure": f, "values": v} for (w, p, f), v in figures.items()]
        arguments.json.write_text(json.dumps(listed, indent=2) + "\n")
