"""What the benchmarks print and write of their runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import parse_arguments
from benchmarks.report import lines_of, summarise, write_json
from benchmarks.workloads.catalogue import DEFAULT, WORKLOADS

RUNS = {
    ("map", "scaler_here"): [{"tasks_per_second": value} for value in (500.0, 700.0, 600.0)],
    ("map", "process_pool"): [{"tasks_per_second": value} for value in (9.0, 11.0, 10.0)],
    ("many_objects", "scaler_here"): [{"objects_per_second": 80.0, "left_mib": 0.0}],
    ("many_objects", "dask"): [{"objects_per_second": 10.0, "left_mib": 0.0}],
}


def test_medians_spread_and_ratios_are_printed() -> None:
    text = "\n".join(lines_of(summarise(RUNS)))
    assert "600.00  (500.00 to 700.00, 3 runs)     60.00 x process_pool" in text


def test_where_the_usual_peer_cannot_do_the_work_another_is_compared() -> None:
    (line,) = [line for line in lines_of(summarise(RUNS)) if "80.00" in line]
    assert line.endswith("8.00 x dask")
    assert not any(" x " in line for line in lines_of(summarise(RUNS)) if "left_mib" in line), "nothing over nothing"


def test_the_json_has_every_figure_and_the_machine(tmp_path: Path) -> None:
    write_json(summarise(RUNS), tmp_path / "summary.json")
    read = json.loads((tmp_path / "summary.json").read_text())
    assert read["workloads"]["map"]["process_pool"]["tasks_per_second"] == {
        "median": 10.0, "minimum": 9.0, "maximum": 11.0, "runs": 3,
    }  # fmt: skip
    assert set(read["machine"]) == {"processor", "cores", "system", "python"}


def test_every_workload_has_a_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.plots import PLOTS, write_plots

    runs = {}
    for name, workload in WORKLOADS.items():
        figures = PLOTS[name].figures if name in PLOTS else (workload.figure,)
        made = dict.fromkeys(figures, 2.0)
        if name == "core":
            made |= {f"us_per_task_{agents}_agents": 0.2 for agents in (1, 1500)}
        for peer in ("scaler_here",) if workload.only_here else ("scaler_here", "process_pool"):
            runs[name, peer] = [made]
    write_plots(summarise(runs), tmp_path)
    assert {path.stem for path in tmp_path.glob("*.svg")} == set(WORKLOADS)


def test_workloads_are_named_or_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, wanted in (([], DEFAULT), (["map"], ["map"]), (["all"], WORKLOADS)):
        monkeypatch.setattr(sys, "argv", ["benchmarks", *given])
        assert list(parse_arguments().workloads) == list(wanted)
