"""A plot for each workload of a summary, all in one style."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers.catalogue import PEERS
from benchmarks.workloads.catalogue import WORKLOADS, Workload

if TYPE_CHECKING:
    from matplotlib.layout_engine import ConstrainedLayoutEngine

HERE, BASE = "scaler_here", "process_pool"
OURS, OTHERS, TEXT, FAINT = ("#0b6e99", "#7fb8d1"), ("#8d99a6", "#cdd4db"), "#1f2933", "#7b8794"
LOGARITHMIC_FROM = 20
"""Ratio of the longest to the shortest bar from which on the axis is logarithmic."""


@dataclass(frozen=True)
class BarChart:
    """Bars of one or two ``figures`` per peer; ``figures`` maps names of figures to words for the legend.
    ``ideal`` is where a line stands that nothing can pass; less is better then."""

    unit: str
    figures: dict[str, str]
    ideal: float | None = None
    format: Callable[[float], str] = "{:,.0f}".format
    title: str = ""

    def more_is_better(self, workload: Workload) -> bool:
        return workload.higher_is_better and self.ideal is None


def _seconds(value: float) -> str:
    return f"{value:,.2f} s"


PLOTS = {
    "map": BarChart("tasks per second", {"tasks_per_second": ""}),
    "submit": BarChart("tasks per second", {"tasks_per_second": ""}),
    "mixed": BarChart("tasks per second", {"tasks_per_second": ""}),
    "latency": BarChart(
        "microseconds", {"p50_us": "median", "p99_us": "99th percentile"}, title="submit and wait, one task at a time"
    ),
    "makespan": BarChart(
        "duration / perfect balance",
        {"slow_first_ratio": "slow ones first", "slow_every_second_ratio": "every second one slow"},
        1.0,
        "{:.3f}".format,
        "200 sleeps, one in ten 40 times as long",
    ),
    "startup": BarChart("seconds", {"seconds": ""}, format=_seconds, title="from nothing to the first result"),
    "outstanding": BarChart(
        "MiB per 100,000 tasks",
        {"client_mib_per_100k": "client", "scheduler_mib_per_100k": "scheduler"},
        format="{:.0f} MiB".format,
        title="memory of tasks that wait",
    ),
    "array_argument": BarChart(
        "time / one copy and the sum", {"times_least": ""}, 1.0, "{:.2f}".format, "100 MB array there, its sum back"
    ),
    "array_result": BarChart(
        "time / making it and one copy", {"times_least": ""}, 1.0, "{:.2f}".format, "100 MB array as a result"
    ),
    "send_object": BarChart(
        "seconds", {"seconds": ""}, format=_seconds, title="100 MB sent once, then 100 tasks on it"
    ),
    "many_objects": BarChart("objects per second", {"objects_per_second": ""}, title="10,000 objects of 100 KB"),
    "data_frame": BarChart(
        "time / one copy and the means",
        {"times_least": ""},
        1.0,
        "{:.2f}".format,
        "DataFrame of 80 MB there, means of its groups back",
    ),
    "dask_array": BarChart(
        "seconds",
        {"small_chunks_s": "1,600 chunks of 320 KB", "large_chunks_s": "16 chunks of 32 MB"},
        format=_seconds,
        title="Dask arrays of 8,000 x 8,000 numbers",
    ),
}
"""Other workloads get bars of the figure that is compared."""


def write_plots(summary: dict[str, Any], directory: Path) -> None:
    """One SVG file for each workload."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {"font.size": 9, "text.color": TEXT, "axes.labelcolor": TEXT, "svg.hashsalt": "scaler", "svg.fonttype": "none"}
    )
    directory.mkdir(parents=True, exist_ok=True)
    for name, peers in summary["workloads"].items():
        draw = _draw_core if name == "core" else _draw_bars
        figure = draw(name, peers)
        figure.text(0.995, 0.01, _footer(summary["machine"], peers), ha="right", va="bottom", fontsize=7, color=FAINT)
        figure.savefig(directory / f"{name}.svg", metadata={"Date": None}, facecolor="white")


def _footer(machine: dict[str, Any], peers: dict[str, Any]) -> str:
    spreads = [spread for figures in peers.values() for spread in figures.values()]
    runs = f"median of {spreads[0]['runs']:.0f} runs" if spreads[0]["runs"] > 1 else "one run"
    if any(spread["minimum"] < spread["maximum"] for spread in spreads):
        runs += ", the fine line from the least to the most"
    words = runs, f"{machine['cores']} cores", machine.get("processor", ""), f"Python {machine['python']}"
    return " · ".join(word for word in words if word)


def _draw_bars(name: str, peers: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    workload = WORKLOADS[name]
    plot = PLOTS.get(name) or BarChart(
        workload.figure.replace("_", " "), {workload.figure: ""}, format="{:,.4g}".format
    )
    main = next(iter(plot.figures))
    more = plot.more_is_better(workload)
    shown = sorted(peers, key=lambda peer: peers[peer][main]["median"], reverse=not more)
    thickness = 0.8 / len(plot.figures)
    height = 1.15 + (0.26 + 0.16 * len(plot.figures)) * len(shown) + (0.2 if len(plot.figures) > 1 else 0)
    figure = Figure(figsize=(7.4, height), layout=_above_footer(height))
    axes = figure.subplots()
    for row, peer in enumerate(shown):
        for index, one in enumerate(plot.figures):
            spread = peers[peer][one]
            place = row + thickness * ((len(plot.figures) - 1) / 2 - index)
            colour = (OURS if peer == HERE else OTHERS)[index]
            axes.barh(place, spread["median"], thickness * 0.92, color=colour)
            axes.plot([spread["minimum"], spread["maximum"]], [place, place], color=TEXT, linewidth=0.8)
            words = plot.format(spread["median"]) + _ratio(plot, peer, one, peers)
            axes.annotate(
                words, (max(spread["median"], spread["maximum"]), place), (4, 0), textcoords="offset points",
                va="center", fontsize=8, fontweight="bold" if peer == HERE else "normal",
                in_layout=False,
            )  # fmt: skip
    axes.set_yticks(range(len(shown)), [PEERS[peer].title for peer in shown])
    longest = max(peers, key=lambda peer: max(peers[peer][one]["median"] for one in plot.figures))
    words_behind = any(_ratio(plot, longest, one, peers) for one in plot.figures)
    _dress(axes, plot, [figures[one]["median"] for figures in peers.values() for one in plot.figures], words_behind)
    title = plot.title or workload.title
    pad = 20 if len(plot.figures) > 1 else 6
    axes.set_title(title[0].upper() + title[1:], loc="left", fontsize=11, fontweight="bold", pad=pad)
    axes.set_xlabel(f"{plot.unit} ({'more' if more else 'less'} is better)", fontsize=8)
    if len(plot.figures) > 1:
        _legend(axes, plot)
    return figure


def _above_footer(height: float) -> ConstrainedLayoutEngine:
    """The layout of a figure of this height, in inches, that leaves room for the footer."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return ConstrainedLayoutEngine(rect=(0, 0.22 / height, 1, 1 - 0.22 / height))


def _ratio(plot: BarChart, peer: str, figure: str, peers: dict[str, Any]) -> str:
    """Return how the figure compares to that of ProcessPoolExecutor, or of another where that one cannot do the
    work."""
    base = BASE if BASE in peers else next((other for other in peers if other != HERE), None)
    if peer != HERE or base is None or plot.ideal is not None:
        return ""
    times = peers[peer][figure]["median"] / peers[base][figure]["median"]
    return f"  ({times:,.0f} x {PEERS[base].title})" if times >= 10 else f"  ({times:,.2g} x {PEERS[base].title})"


def _dress(axes: Any, plot: BarChart, values: list[float], words_behind: bool) -> None:
    """``words_behind``: the longest bar has more than a number behind it."""
    from matplotlib.ticker import LogLocator

    if min(values) > 0 and max(values) / min(values) >= LOGARITHMIC_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        lowest = min(values) / 2
        axes.set_xlim(lowest, max(values) * (max(values) / lowest) ** (0.9 if words_behind else 0.6))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    else:
        axes.set_xlim(0, max(values) * (1.7 if words_behind else 1.25))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    if plot.ideal is not None:
        axes.axvline(plot.ideal, color=TEXT, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8, colors=FAINT)
    axes.grid(axis="x", color="#e4e7eb", linewidth=0.6)
    axes.set_axisbelow(True)


def _legend(axes: Any, plot: BarChart) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(color=OURS[index], label=words) for index, words in enumerate(plot.figures.values())]
    axes.legend(
        handles=patches,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(patches),
        fontsize=8,
        frameon=False,
        borderpad=0.2,
        borderaxespad=0.1,
        handlelength=1.2,
    )


def _draw_core(name: str, peers: dict[str, Any]) -> Any:
    """Draw the cost of a task in the scheduler's core, by the number of agents."""
    from matplotlib.figure import Figure

    costs = {
        int(figure.split("_")[3]): spread for figure, spread in peers[HERE].items() if figure.startswith("us_per_task")
    }
    agents = sorted(costs)
    figure = Figure(figsize=(7.4, 2.9), layout=_above_footer(2.9))
    axes = figure.subplots()
    least, most = ([costs[count][end] for count in agents] for end in ("minimum", "maximum"))
    axes.fill_between(agents, least, most, color=OURS[1], alpha=0.35, linewidth=0)
    axes.plot(agents, [costs[count]["median"] for count in agents], color=OURS[0], marker="o", markersize=4)
    for count in agents:
        axes.annotate(f"{costs[count]['median']:.2f}", (count, costs[count]["median"]), (0, 6),
                      textcoords="offset points", ha="center", fontsize=8, fontweight="bold")  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(agents, [f"{count:,}" for count in agents])
    axes.minorticks_off()
    axes.set_ylim(0, max(most) * 1.35)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e4e7eb", linewidth=0.6)
    axes.tick_params(labelsize=8, colors=FAINT)
    axes.set_title("The scheduler's core alone: cost of a task", loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel("agents", fontsize=8)
    axes.set_ylabel("microseconds a task", fontsize=8)
    return figure
