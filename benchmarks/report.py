"""Medians, spread and ratios of many runs; JSON; one plot a workload."""

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


def write_plots(summary: dict[str, Any], directory: Path) -> None:
    """One bar chart a workload, on a logarithmic axis where peers lie far apart."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    for name, peers in summary["workloads"].items():
        workload = WORKLOADS[name]
        shown = sorted(peers, key=lambda peer: peers[peer][workload.figure]["median"])
        values = [peers[peer][workload.figure]["median"] for peer in shown]
        figure, axes = pyplot.subplots(figsize=(7, 0.5 * len(shown) + 1.2))
        axes.barh([PEERS[peer].title for peer in shown], values, color="#2f6f9f")
        if min(values) > 0 and max(values) / min(values) > 20:
            axes.set_xscale("log")
        axes.bar_label(axes.containers[0], fmt=lambda value: f" {value:,.4g}")
        axes.margins(x=0.15)
        axes.set_title(f"{workload.title}: {workload.figure.replace('_', ' ')}")
        figure.tight_layout()
        figure.savefig(directory / f"{name}.png", dpi=110)
        pyplot.close(figure)
