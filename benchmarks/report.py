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
    return {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}


def lines_of(summary: dict[str, Any], base: str = "process_pool") -> list[str]:
    """The summary as text: a line per figure, with its ratio to the same figure of ``base`` in the same run."""
    lines = []
    for workload, peers in summary["workloads"].items():
        lines.append(f"\n{WORKLOADS[workload].title}")
        for peer, figures in peers.items():
            for figure, spread in figures.items():
                other = peers.get(base, {}).get(figure)
                ratio = f"  {spread['median'] / other['median']:8.2f} x {base}" if other else ""
                lines.append(
                    f"  {PEERS[peer].title:42} {figure:24} {spread['median']:14,.2f}"
                    f"  ({spread['minimum']:,.2f} to {spread['maximum']:,.2f}, {spread['runs']:.0f} runs){ratio}"
                )
    return lines


def write_json(summary: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(summary, indent=2) + "\n")
