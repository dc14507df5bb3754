"""Clients inside tasks that send objects and fetch large results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.core.effects import DropStoredObjects, PushObject
from scaler.core.outcome import Outcome
from scaler.core.runs import Function, Shape
from scaler.core.uploads import Stored, Upload
from scaler_protocol.messages import ObjectKey, Status, TaskName, TaskOptions
from tests.simulation.graphs import LARGE, result_of
from tests.simulation.nested import LEVELS, MOST_CHILDREN, PARENT, ChildSink, Family, NestedClient
from tests.simulation.world import World

OBJECT_BYTES = (33_000, 200_000)


class ObjectChild(ChildSink):
    """A large result is fetched at once."""

    def settle(self, outcome: Outcome) -> bool:
        if outcome.status == Status.SUCCESS_LARGE:
            self.family.client.fetch(self, outcome.payload)  # type: ignore[attr-defined]
            return True
        return super().settle(outcome)


class Arrival:
    """A large result on its way to a function that takes it."""

    def __init__(self, take: Callable[[Outcome], bool]) -> None:
        self.settle = take

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")


class ObjectFamily(Family):
    """Children that were all given the same object."""

    def __init__(
        self, client: NestedClient, arguments: list[bytes], done: Callable[[bytes], None], data: bytes
    ) -> None:
        super().__init__(client, arguments, done)
        self.sinks = [ObjectChild(self, argument) for argument in arguments]
        self._data = data

    def result_of(self, argument: bytes) -> bytes:
        return result_of(argument, [self._data])


class ObjectNestedClient(NestedClient):
    """Sends an object for each task that it lives in. Its host is its agent's."""

    def __init__(self, world: World, agent: Any, parent: TaskName) -> None:
        super().__init__(world, agent, parent)
        self._host = agent.host
        self._sent = 0
        names = ("short", LARGE, PARENT)
        self._with_object = {name: Shape(Function(name, name.encode()), 2, (), TaskOptions()) for name in names}

    def run(self, parent: TaskName, argument: bytes, execution: int, done: Callable[[bytes], None]) -> Family:
        chance = self.world.chance
        names = [*self._with_object] if argument.count(b"/") < LEVELS else ["short", LARGE]
        functions = [chance.choice(names) for _ in range(chance.randint(1, MOST_CHILDREN))]
        arguments = [b"%s/ %s %d.%d" % (argument, each.encode(), execution, at) for at, each in enumerate(functions)]
        data = b"object of " + argument.ljust(chance.randint(*OBJECT_BYTES))
        family = ObjectFamily(self, arguments, done, data)

        def add(now: float) -> None:
            self.core.live_in(parent)
            upload = self._upload(data)
            for name, sink in zip(functions, family.sinks, strict=True):
                child: Any = sink
                self.core.submissions.add(
                    self._with_object[name], [sink.argument, upload.key], len(sink.argument), child
                )
                self.core.objects.refer(child.task_range, child.task_index, [upload])
            self.core.objects.let_go(upload)
            self.core.submissions.ask_flush()

        self.post(add)
        self.world.after(self.world.between(0.0, 0.003), family.block)
        return family

    def fetch(self, child: ObjectChild, large: Any) -> None:
        """From the host's store, or else through the scheduler."""
        store = self._host.store if self._host is not None else None
        data = store.objects.get(large.key) if store is not None and store.id == large.store else None
        if data is None:
            self.post(lambda now: self.core.large.fetch(large, Arrival(child.settle)))
        else:
            self.core.large.has_taken(large)
            child.settle(Outcome(Status.SUCCESS, data))

    def end(self) -> None:
        super().end()
        if self._host is not None:
            self._host.store.on_process_died(self)

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, DropStoredObjects):
            if self._host is not None:
                self._host.drop(effect.keys)
        elif isinstance(effect, PushObject) and self._host is not None:
            self._host.hosts.push(self, effect)
        else:
            super().carry_out(effect)

    def _upload(self, data: bytes) -> Upload:
        key = self.core.objects.next_key()
        if self._host is None or not self._host.store.has_room(len(data)):
            return self.core.objects.add(key, data)
        store = self._host.store
        store.put(key, data, self)

        def read(_: ObjectKey) -> memoryview | None:
            kept = store.objects.get(key)
            return None if kept is None else memoryview(kept)

        return self.core.objects.add(key, Stored(len(data), store.id, read))
