"""Random graphs, what each of their tasks must give, and the sinks of those whose results are asked for."""

from __future__ import annotations

from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scaler.core.graphs import GraphGroup, fill
from scaler.core.runs import Function, Shape
from scaler.core.session import Session
from scaler_protocol.messages import ObjectKey, Status, TaskOptions
from tests.simulation.client import DEATHS, ONCE, TaskSink

if TYPE_CHECKING:
    from tests.simulation.client import ClientNode

INPUTS_LIMIT = 4


LARGE = "large"
"""The function whose results are above the inline limit."""

LARGE_BYTES = (33_000, 200_000)


def result_of(argument: bytes, inputs: list[bytes]) -> bytes:
    """What a task gives: it proves which values it was given."""
    proof = 0
    for each in inputs:  # large ones are most of the work of a simulation
        proof = crc32(each, proof)
    result = b"result of " + argument + (b"%016x" % proof if inputs else b"")
    if LARGE.encode() not in argument.split():
        return result
    least, most = LARGE_BYTES
    return result.ljust(least + crc32(argument) % (most - least))


NAMES = ("short", "short", "short", "long")


class RandomGraph:
    """Tasks that need results of earlier ones. Those that nobody needs are targets, and some others."""

    def __init__(self, chance: Random, count: int, names: tuple[str, ...] = NAMES) -> None:
        reach = chance.choice([1, 5, count])
        self.inputs: list[list[int]] = []
        for node in range(count):
            earlier = range(max(0, node - reach), node)
            number = min(len(earlier), chance.randint(0, INPUTS_LIMIT) if reach > 1 else 1)
            self.inputs.append(sorted(chance.choices(earlier, k=number)) if number else [])
        self.needed = {each for inputs in self.inputs for each in inputs}
        self.targets = [node not in self.needed or chance.random() < 0.1 for node in range(count)]
        self.functions = [chance.choice(names) for _ in range(count)]

    def results(self, arguments: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        for argument, inputs in zip(arguments, self.inputs, strict=True):
            found.append(result_of(argument, [found[each] for each in inputs]))
        return found


class GraphSink(TaskSink):
    """The future of a target."""

    def __init__(self, client: ClientNode, argument: bytes, expected: bytes, arguments: list[bytes]) -> None:
        super().__init__(client, argument)
        self.expected = expected
        self.arguments = arguments
        self.is_cancelled_graph = False

    def check_with(self, deaths: dict[bytes, int]) -> None:
        """It ended exactly once: with its result, or as its graph did."""
        assert len(self.outcomes) == 1, (self.argument, self.outcomes)
        status = self.outcomes[0].status
        if status == Status.SUCCESS:
            assert bytes(self.outcomes[0].payload) == self.expected, (self.argument, self.outcomes)
        elif status in DEATHS and any(f" {ONCE} ".encode() in each for each in self.arguments):
            return
        elif status == Status.PROCESSOR_DIED:
            assert any(deaths.get(each, 0) >= 3 for each in self.arguments), self.argument
        else:
            assert status == Status.CANCELLED and self.is_cancelled_graph, (self.argument, self.outcomes)


def submit(
    session: Session, client: ClientNode, graph: RandomGraph, name: str, make_sink: Any = GraphSink
) -> tuple[GraphGroup, list[Any]]:
    """Enter a graph into a session, in runs of tasks that share a shape."""
    first = session.submissions.next_task()
    count = len(graph.inputs)
    group = GraphGroup(first, first + count - 1)
    arguments = [f"{name} {graph.functions[node]} {node}".encode() for node in range(count)]
    expected = graph.results(arguments)
    sinks: list[Any] = []

    def shape_of(node: int) -> tuple[str, int, bool]:
        return graph.functions[node], 1 + len(graph.inputs[node]), graph.targets[node]

    for (function, arity, target), members in groupby(range(count), shape_of):
        options = TaskOptions(graph=group.last & 0xFFFFFFFF, intermediate=not target, rerun=function != ONCE)
        entry = session.submissions.open_graph_range(
            Shape(Function(function, function.encode()), arity, (), options), group
        )
        assert entry.builder is not None
        nodes = list(members)
        for node in nodes:
            keys = [ObjectKey(client.session, first + each) for each in graph.inputs[node]]
            entry.builder.append([arguments[node], *keys])
        mine = [make_sink(client, arguments[node], expected[node], arguments) for node in nodes] if target else []
        fill(entry, mine, [node in graph.needed for node in nodes] if target else [])
        sinks += mine
    assert session.submissions.add_graph(group)
    return group, sinks
