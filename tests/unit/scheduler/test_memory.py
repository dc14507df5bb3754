"""Nothing in the core grows with the number of tasks done."""

from __future__ import annotations

import psutil

from benchmarks.simulated import CLIENT, FUNCTION, PICKLE, Bench, SimulatedPeer
from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import FunctionDefinition, TaskOptions, Tasks

WAVE = 10_000


def do_tasks(bench: Bench, first: int, stop: int) -> None:
    """In waves, each of which is done before the next one comes."""
    definition = FunctionDefinition(FUNCTION, "f", PICKLE, 8)
    for start in range(first, stop, WAVE):
        run = TaskRun(CLIENT, FUNCTION, "f", b"", start, 1, (), TaskOptions(), [[b"argument"]] * WAVE)
        bench.says(bench.client, Tasks([run], [definition]))
        bench._answer_until(start + WAVE)


def test_pages_of_tasks_that_have_ended_are_freed() -> None:
    """A million tasks have pages of 20 MB."""
    bench = Bench()
    bench._join(SimulatedPeer(b"a" * 16))
    do_tasks(bench, 0, 20 * WAVE)
    before = psutil.Process().memory_info().rss
    do_tasks(bench, 20 * WAVE, 120 * WAVE)
    assert psutil.Process().memory_info().rss - before < 6_000_000
    bench.core.check()


def test_the_benchmark_of_the_core_alone_runs() -> None:
    assert 0 < Bench().run(agents=10, tasks=20_000) < 50
