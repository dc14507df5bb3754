"""A simulated client: the real session core, and sinks that note how often each task ended, and how."""

from __future__ import annotations

from typing import Any

from scaler.core.effects import CompareSoftware, Finish, IssueWarnings, PushObject, ReplaceConnection, WriteOutput
from scaler.core.outcome import Outcome
from scaler.core.runs import Function, Shape
from scaler.core.session import SCHEDULER, Session
from scaler_protocol.effects import Send
from scaler_protocol.handshake import make_hello
from scaler_protocol.messages import Capability, Role, Status, TaskOptions
from tests.simulation.locks import Keeper, LockUser, name_for
from tests.simulation.named import VariableUser
from tests.simulation.network import Connection, Frames, Network
from tests.simulation.node import Node
from tests.simulation.scheduler import TOKEN, new_handshake
from tests.simulation.world import World

TIMEOUT_SECONDS = 60.0


HUNGRY = "hungry"
"""The function whose tasks use more memory than they may, unless they end before that is seen."""


ONCE = "once"
"""The function whose tasks must not start twice. They may end with the agent that has started them."""


GPU = "gpu"
"""The function whose tasks need the capability of this name."""


def options_of(name: str, priority: int) -> TaskOptions:
    capabilities = (Capability(GPU, 1),) if name == GPU else ()
    return TaskOptions(
        priority=priority, memory_bytes=int(name == HUNGRY), capabilities=capabilities, rerun=name != ONCE
    )


DEATHS = (Status.WORKER_DIED, Status.PROCESSOR_DIED)


class TaskSink:
    """The future of one task."""

    def __init__(self, client: ClientNode, argument: bytes) -> None:
        self.client = client
        self.argument = argument
        self.outcomes: list[Outcome] = []
        self.cancelled = False

    def settle(self, outcome: Outcome) -> bool:
        self.outcomes.append(outcome)
        self.client.unfinished -= 1
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")

    def cancel(self) -> None:
        self.cancelled = True
        self.client.unfinished -= 1

    def check(self, deaths: int = 0) -> None:
        """Ended exactly once, and with its own result; or with an error after three deaths of its worker processes."""
        assert len(self.outcomes) + self.cancelled == 1, (self.argument, self.outcomes, self.cancelled)
        if self.outcomes and ONCE in str(self.argument) and self.outcomes[0].status in DEATHS:
            return
        if self.outcomes and self.outcomes[0].status == Status.PROCESSOR_DIED:
            assert deaths >= 3, (self.argument, deaths)
        elif self.outcomes and self.outcomes[0].status == Status.MEMORY_EXCEEDED:
            assert HUNGRY.encode() in self.argument, self.argument
        elif self.outcomes:
            assert self.outcomes[0].status == Status.SUCCESS, (self.argument, self.outcomes)
            assert bytes(self.outcomes[0].payload) == b"result of " + self.argument


class ClientNode(Node):
    """Submits tasks of several shapes, and cancels some."""

    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        function_names: tuple[str, ...] = ("short", "long"),
        priorities: tuple[int, ...] = (0, 1),
    ) -> None:
        super().__init__(world, name)
        self.session = world.chance.randbytes(16)
        self.unfinished = 0
        self.graph_names: tuple[str, ...] = ()
        self._variables = self._graphs = 0
        self.sinks: list[TaskSink] = []
        self.groups: list[tuple[Any, list[Any]]] = []
        self.graph_sinks: list[Any] = []
        hello = make_hello(Role.SUBMIT, self.session)
        self.core = Session(
            hello,
            timeout_seconds=TIMEOUT_SECONDS,
            heartbeat_interval_seconds=2.0,
            serializer=None,
            now=world.now,
            handshake=new_handshake(world),
        )
        self._shapes = [
            Shape(Function(name, name.encode()), 1, (), options_of(name, priority))
            for name in function_names
            for priority in priorities
        ]
        self.connection: Connection = network.join(self)

    def submit(self, count: int) -> None:
        def add(now: float) -> None:
            for _ in range(count):
                self._add(self.world.chance.choice(self._shapes))

        self.unfinished += count
        self.post(add)

    def submit_one(self, function: str) -> TaskSink:
        """At once, and not from outside."""
        self.unfinished += 1
        return self._add(next(shape for shape in self._shapes if shape.function.name == function))

    def _add(self, shape: Shape) -> TaskSink:
        argument = f"{self.name} {shape.function.name} {len(self.sinks)}".encode()
        sink = TaskSink(self, argument)
        self.sinks.append(sink)
        self.core.submissions.add(shape, [argument], len(argument), sink)
        return sink

    def submit_graph(self, count: int) -> None:
        graph = graphs.RandomGraph(self.world.chance, count, self.graph_names or graphs.NAMES)
        self.unfinished += sum(graph.targets)
        self._graphs += 1
        number = self._graphs if self.graph_names else len(self.groups)
        name = f"{self.name} graph {number}"

        def add(now: float) -> None:
            group, sinks = graphs.submit(self.core, self, graph, name)
            self.groups.append((group, sinks))
            self.graph_sinks += sinks

        self.post(add)

    def use_lock(self, keeper: Keeper) -> None:
        LockUser(self, keeper, name_for(b"", self.world.chance))

    def use_variable(self) -> None:
        self._variables += 1
        VariableUser(self, self._variables)

    def cancel_graph(self) -> None:
        def cancel(now: float) -> None:
            if self.groups:
                group, sinks = self.world.chance.choice(self.groups)
                for sink in sinks:
                    sink.is_cancelled_graph = True
                self.core.endings.cancel_graph(group)

        self.post(cancel)

    def cancel_some(self, share: float) -> None:
        def cancel(now: float) -> None:
            for sink in self.sinks:
                place: Any = sink
                is_sent = hasattr(sink, "task_range") and not sink.outcomes and not sink.cancelled
                is_chosen = is_sent and self.world.chance.random() < share
                if is_chosen and self.core.endings.cancel(place.task_range, place.task_index):
                    sink.cancel()

        self.post(cancel)

    # ---- the network -------------------------------------------------------------------------------------------

    def on_frames(self, frames: Frames) -> None:
        self.received += 1
        self.post(lambda now: self.core.on_message(SCHEDULER, self.decode(frames), now))

    def on_connected(self) -> None:
        self.post(lambda now: self.core.on_connected(now, TOKEN))

    def on_disconnected(self) -> None:
        self.post(lambda now: self.core.on_peer_lost(SCHEDULER, now))

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Send):
            self.connection.send_up(self.encode(effect.envelope))
        elif isinstance(effect, Finish):
            effect.sink.finish(effect.outcome)
        elif isinstance(effect, ReplaceConnection):
            self.connection.cut()
        else:
            assert isinstance(effect, (PushObject, WriteOutput, IssueWarnings, CompareSoftware)), (
                f"{self.name}: {effect}"
            )


_IGNORED = (PushObject, WriteOutput, IssueWarnings, CompareSoftware)

from tests.simulation import graphs  # noqa: E402  its sinks are sinks of this module
