"""Medians, spread and ratios of many runs; JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import PEERS
from benchmarks.workloads.catalogue import WORKLOADS

Runs = dict[tuple[str, str], list[dict[str, float]]]
"""Figures of every run by (workload, peer)."""


def summarise(runs: Runs) -> dict[str, Any]:
    """``{workload: {peer: {figure: {median, minimum, maximum, runs}}}}`` and the machine."""
    table: dict[str, Any] = defaultdict(dict)
    for (workload, peer), samples in runs.items():
        table[workload][peer] = {figure: _spread([sample[figure] for sample in samples]) for figure in samples[0]}
    return {"machine": _machine(), "workloads": dict(table)}


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": statistics.median(values),
        "minimum": min(values),
        "maximum": max(values),
        "runs": len(values),
    }


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def lines_of(summary: dict[str, Any], base: str = "process_pool") -> list[str]:
    """The summary as text: a line per figure, with its ratio to the same figure of ``base`` in the same run, or of
    another peer where ``base`` cannot do the work."""
    lines = []
    for workload, peers in summary["workloads"].items():
        lines.append(f"\n{WORKLOADS[workload].title}")
        compared = base if base in peers else next((peer for peer in peers if peer != "scaler_here"), base)
        for peer, figures in peers.items():
            for figure, spread in figures.items():
                other = peers.get(compared, {}).get(figure)
                is_known = other is not None and other["median"] > 0
                ratio = f"  {spread['median'] / other['median']:8.2f} x {compared}" if is_known else ""
                lines.append(
                    f"  {PEERS[peer].title:42} {figure:24} {spread['median']:14,.2f}"
                    f"  ({spread['minimum']:,.2f} to {spread['maximum']:,.2f}, {spread['runs']:.0f} runs){ratio}"
                )
    return lines


def write_json(summary: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(summary, indent=2) + "\n")
