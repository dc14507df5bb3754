"""Which processors workers are bound to."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler_worker.pinning import Processor, assign_processors, read_processors

TWO_NODES = [Processor(number % 8 // 4, number % 8, number) for number in range(16)]
"""Four cores at each node, with two processors each: 0 and 8, 1 and 9, ..."""


@pytest.mark.parametrize(
    ("kind", "workers", "processors"),
    [
        ("none", 2, [(), ()]),
        ("cpu", 2, [(0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15)]),
        ("cpu", 8, [(0, 8), (1, 9), (2, 10), (3, 11), (4, 12), (5, 13), (6, 14), (7, 15)]),
        ("numa", 3, [(0, 8, 1, 9, 2, 10, 3, 11)] * 2 + [(4, 12, 5, 13, 6, 14, 7, 15)]),
    ],
)
def test_workers_get_neighbouring_processors(kind: str, workers: int, processors: list[tuple[int, ...]]) -> None:
    assert assign_processors(kind, workers, TWO_NODES) == processors


def test_workers_beyond_the_processors_share_them() -> None:
    assert assign_processors("cpu", 4, [Processor(0, 0, 0), Processor(0, 1, 1)]) == [(0,), (0,), (1,), (1,)]


def test_the_system_tells_nodes_and_cores(tmp_path: Path) -> None:
    for node, text in enumerate(["0-1,4\n", "2-3\n"]):
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(text)
    siblings = tmp_path / "cpu/cpu4/topology/thread_siblings_list"
    siblings.parent.mkdir(parents=True)
    siblings.write_text("0,4\n")
    assert read_processors([0, 2, 4], tmp_path) == [Processor(0, 0, 0), Processor(1, 2, 2), Processor(0, 0, 4)]


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert read_processors([3, 5], tmp_path) == [Processor(0, 3, 3), Processor(0, 5, 5)]
