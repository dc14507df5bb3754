"""The scheduler's core alone: what it costs per task when there is one agent, and when there are 1,500; and what its
event records cost while there is a watcher."""

from __future__ import annotations

TASKS = 1_000_000
AGENTS = (1, 10, 100, 1000, 1500)
RECORDED_TASKS = 300_000
RECORDED_PAIRS = 9


def scheduler_alone() -> dict[str, float]:
    from benchmarks.simulated import Bench

    costs = {agents: Bench().run(agents, TASKS) for agents in AGENTS}
    figures = {f"us_per_task_{agents}_agents": cost for agents, cost in costs.items()}
    return {"dearest_to_cheapest": max(costs.values()) / min(costs.values()), **figures}


def records_alone() -> dict[str, float]:
    """Nanoseconds per task: of the core, and how many more it takes to record, for messages of 100 and 500 results."""
    figures: dict[str, float] = {}
    for rows in (500, 100):
        pairs = [(_core_nanoseconds(rows, False), _core_nanoseconds(rows, True)) for _ in range(RECORDED_PAIRS)]
        plain, watched = (min(each) for each in zip(*pairs, strict=True))  # those that were disturbed least
        figures[f"core_ns_{rows}_rows"] = plain
        figures[f"records_ns_{rows}_rows"] = watched - plain
    return figures


def _core_nanoseconds(rows: int, watched: bool) -> float:
    from benchmarks.simulated import Bench

    bench = Bench(rows)
    if watched:
        bench.watch()
    return bench.run(1, RECORDED_TASKS) * 1e3
