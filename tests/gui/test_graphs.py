"""Graphs: where nodes stand, and how far they are."""

from __future__ import annotations

import time

import numpy
import pytest

from scaler_gui.models.graph_layout import layered, layers_of, spread
from scaler_gui.models.graph_picture import NODE_WIDTH, STATES, picture, sentence
from scaler_gui.models.graphs import GraphWatch
from scaler_protocol.monitor.model import Model
from tests.support.monitor_stream import synthetic_messages

RANDOM = numpy.random.default_rng(5)


def random_edges(nodes: int, edges: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    pairs = RANDOM.integers(0, nodes, (edges, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs.min(axis=1), pairs.max(axis=1)


def test_a_layer_is_the_longest_way_from_the_start() -> None:
    sources, targets = numpy.array([0, 1, 0, 3]), numpy.array([1, 2, 2, 2])
    assert layers_of(5, sources, targets).tolist() == [0, 1, 2, 0, 0]


@pytest.mark.parametrize(("nodes", "edges"), [(2, 1), (50, 80), (400, 1200)])
def test_edges_point_right_and_nodes_do_not_overlap(nodes: int, edges: int) -> None:
    sources, targets = random_edges(nodes, edges)
    layout = layered(nodes, sources, targets)
    assert (layout.x[targets] - layout.x[sources] >= NODE_WIDTH).all()
    for x in set(layout.x.tolist()):
        heights = numpy.sort(layout.y[layout.x == x])
        assert (numpy.diff(heights) >= 0.999).all()


def test_a_chain_is_straight() -> None:
    layout = layered(6, numpy.arange(5), numpy.arange(1, 6))
    assert set(layout.y.tolist()) == {0.0}


def test_a_parent_stands_between_its_children() -> None:
    layout = layered(7, numpy.array([0, 1, 2, 3, 4, 5]), numpy.array([4, 4, 5, 5, 6, 6]))
    assert layout.y[4] == pytest.approx((layout.y[0] + layout.y[1]) / 2)
    assert layout.y[6] == pytest.approx((layout.y[4] + layout.y[5]) / 2)


def test_a_cycle_does_not_hang_it() -> None:
    layout = layered(4, numpy.array([0, 1, 2]), numpy.array([1, 2, 1]))
    assert len(layout.x) == 4


def test_no_nodes_at_all() -> None:
    nothing = numpy.zeros(0, int)
    assert layered(0, nothing, nothing).width == 0


def test_ten_thousand_nodes_are_laid_out_in_a_moment() -> None:
    sources, targets = random_edges(10_000, 30_000)
    began = time.perf_counter()
    layered(10_000, sources, targets)
    assert time.perf_counter() - began < 2.0  # about 0.03 s on an idle machine


def test_spread_moves_no_more_than_it_must() -> None:
    wanted = numpy.array([0.0, 0.0, 0.0, 10.0])
    assert spread(wanted).tolist() == [-1.0, 0.0, 1.0, 10.0]


def test_edges_to_strangers_are_left_out() -> None:
    drawn = picture([10, 11, 12], ["a", "b", "c"], [(12, 10), (12, 11), (12, 99)])
    assert sorted(zip(drawn.sources.tolist(), drawn.targets.tolist(), strict=True)) == [(0, 2), (1, 2)]
    assert drawn.node_at(float(drawn.layout.x[2]) + 0.1, float(drawn.layout.y[2])) == 2
    assert drawn.node_at(-100.0, 0.0) is None


def test_the_newest_graph_is_watched_until_another_is_chosen() -> None:
    model, watch = Model(0.0), GraphWatch()
    assert not watch.look(model) and watch.picture is None
    for number, message in enumerate(synthetic_messages(4.0, 4, 100)):
        model.apply(message, number * 0.1)
    assert watch.look(model) and watch.picture is not None
    assert len(watch.states) == len(watch.picture.tasks) == 60
    assert not watch.look(model), "the same graph is not laid out again"
    assert "done" in sentence(watch.states)
    assert max(watch.states) < len(STATES)
    row, _ = model.rows("graphs")
    watch.choose(row[0][1], row[0][0])
    assert not watch.look(model)


def test_a_chain_of_ten_thousand_is_straight() -> None:
    """What a layer costs grows with its own edges, not with those of the graph: this one has ten thousand layers."""
    layout = layered(10_000, numpy.arange(9_999), numpy.arange(1, 10_000))
    assert set(layout.y.tolist()) == {0.0} and len(set(layout.x.tolist())) == 10_000
