"""The scheduler's core alone: what it costs per task when there is one agent, and when there are 1,500."""

from __future__ import annotations

TASKS = 1_000_000
AGENTS = (1, 10, 100, 1000, 1500)


def scheduler_alone() -> dict[str, float]:
    from benchmarks.simulated import Bench

    costs = {agents: Bench().run(agents, TASKS) for agents in AGENTS}
    figures = {f"us_per_task_{agents}_agents": cost for agents, cost in costs.items()}
    return {"dearest_to_cheapest": max(costs.values()) / min(costs.values()), **figures}
