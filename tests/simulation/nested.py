"""Clients inside simulated tasks: the real session core, relayed by the agent of their worker process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.core.effects import Finish, ReplaceConnection
from scaler.core.outcome import Outcome
from scaler.core.runs import Function, Shape
from scaler.core.session import SCHEDULER, Session
from scaler_protocol.codec import encode
from scaler_protocol.effects import Send
from scaler_protocol.handshake import make_hello
from scaler_protocol.messages import Envelope, Role, Status, TaskColumn, TaskName, TaskOptions, WhoAreYou
from tests.simulation.locks import LOCKER, PARENT_SHARE, Critical, Keeper, name_for
from tests.simulation.node import Node
from tests.simulation.world import World

PARENT = "parent"
"""The function whose tasks submit tasks and wait for them."""

LEVELS = 2
"""So deep are parents nested in parents."""

MOST_CHILDREN = 3
STREAM_SECONDS = (0.00001, 0.0005)
BLOCK_SECONDS = (0.0, 0.003)
CUT_SECONDS = (0.0, 1.0)
"""So long the connection to the agent is away."""

NAMES = ("short", "long", PARENT)
LOCKER_NAMES = ("short", LOCKER)


class Stream:
    """What is sent arrives in its order."""

    def __init__(self, world: World, deliver: Callable[[Any], None]) -> None:
        self._world = world
        self._deliver = deliver
        self._last_at = 0.0

    def send(self, item: Any) -> None:
        self._last_at = max(self._last_at, self._world.now + self._world.between(*STREAM_SECONDS))
        self._world.at(self._last_at, lambda: self._deliver(item))


class ChildSink:
    def __init__(self, family: Family, argument: bytes) -> None:
        self.family = family
        self.argument = argument

    def settle(self, outcome: Outcome) -> bool:
        self.family.child_ended(self.argument, outcome)
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")


class Family:
    """One execution of a parent and its children. ``done(failure)`` is called when all have ended."""

    def __init__(self, client: NestedClient, arguments: list[bytes], done: Callable[[bytes], None]) -> None:
        self.client = client
        self.sinks = [ChildSink(self, argument) for argument in arguments]
        self.has_left = False
        self._waiting = len(arguments)
        self._failure = b""
        self._blocked = False
        self._done = done

    def child_ended(self, argument: bytes, outcome: Outcome) -> None:
        self._waiting -= 1
        if outcome.status == Status.EXCEPTION:
            self._failure = self._failure or bytes(outcome.payload)
        elif outcome.status != Status.SUCCESS:
            self._failure = self._failure or argument + b":%d" % outcome.status
        elif not self.has_left:
            assert bytes(outcome.payload) == self.result_of(argument)
        if not self._waiting:
            self.client.world.after(0.0, self._go_on)

    def result_of(self, argument: bytes) -> bytes:
        """What this child must give."""
        return b"result of " + argument

    def block(self) -> None:
        if self._waiting and not self.has_left:
            self._blocked = True
            self.client.say("blocked")

    def leave(self) -> None:
        """The parent has ended, in whatever way."""
        self.has_left = True
        if self._blocked:
            self._blocked = False
            self.client.say("unblocked")

    def _go_on(self) -> None:
        if not self.has_left and self.client.alive:
            self.leave()
            self._done(self._failure)


class NestedClient(Node):
    """Stays with its worker process from task to task, unless something of a task that ended is still under way."""

    def __init__(self, world: World, agent: Any, parent: TaskName) -> None:
        super().__init__(world, "nested client")
        self.session = world.chance.randbytes(16)
        self._agent = agent
        self._up = Stream(world, self._arrive)
        self.down = Stream(world, self._on_frames)
        self._is_abandoned = False
        self._parent = parent
        self._word: str | None = None
        self._connection = 0
        """Which connection to the agent this is. What is under way on an earlier one is lost."""

        self._is_cut = False
        names = (*NAMES, LOCKER)
        self._shapes = {name: Shape(Function(name, name.encode()), 1, (), TaskOptions()) for name in names}
        self._critical: Critical | None = None
        hello = make_hello(
            Role.SUBMIT, self.session,
            parent_session=parent.session, parent_task=parent.task, parent_attempt=parent.attempt,
            parent_depth=parent.depth,
        )  # fmt: skip
        self.core = Session(hello, timeout_seconds=60.0, heartbeat_interval_seconds=2.0, serializer=None, now=world.now)
        agent.nested[self.session] = self
        self._send_up("opened", parent)
        self.post(self.core.on_connected)

    def cut(self) -> None:
        """Its connection to the agent ends, and nothing else."""
        if not self._is_cut and self.alive:
            self._is_cut = True
            self._connection += 1
            self.post(lambda now: self.core.on_peer_lost(SCHEDULER, now))
            self._agent.post(lambda now: self._agent.core.on_nested_closed(self.session, now))
            self.world.after(self.world.between(*CUT_SECONDS), self._reconnect)

    def _reconnect(self) -> None:
        if self.alive:
            self._is_cut = False
            self._send_up("opened", self._parent)
            self.post(self.core.on_connected)
            self.post(lambda now: self._say_word_again())

    def _say_word_again(self) -> None:
        """Behind Hello, which this drain sends."""
        self.world.after(0.0, lambda: self._send_up(self._word, None) if self._word is not None else None)

    def _send_up(self, word: str, value: Any) -> None:
        if not self._is_cut:
            self._up.send((self._connection, word, value))

    def use_lock(
        self, keeper: Keeper, parent: TaskName, argument: bytes, execution: int, done: Callable[[bytes], None]
    ) -> Critical:
        def work(go_on: Callable[[bytes], None]) -> Family | None:
            if argument.count(b"/") < LEVELS and self.world.chance.random() < PARENT_SHARE:
                return self.run(parent, argument, execution, go_on, LOCKER_NAMES)
            go_on(b"")
            return None

        self._parent = parent
        name = name_for(argument, self.world.chance)
        self._critical = Critical(self, keeper, name, parent, work, done)
        return self._critical

    def run(
        self,
        parent: TaskName,
        argument: bytes,
        execution: int,
        done: Callable[[bytes], None],
        choices: tuple[str, ...] = NAMES,
    ) -> Family:
        count = self.world.chance.randint(1, MOST_CHILDREN)
        names = choices if argument.count(b"/") < LEVELS else choices[:-1]
        functions = [self.world.chance.choice(names) for _ in range(count)]
        arguments = [b"%s/%s %d.%d" % (argument, functions[i].encode(), execution, i) for i in range(count)]
        family = Family(self, arguments, done)

        def add(now: float) -> None:
            self._parent = parent
            self.core.live_in(parent)
            for name, sink in zip(functions, family.sinks, strict=True):
                self.core.submissions.add(self._shapes[name], [sink.argument], len(sink.argument), sink)
            self.core.submissions.ask_flush()

        self.post(add)
        self.world.after(self.world.between(*BLOCK_SECONDS), family.block)
        return family

    def say(self, word: str) -> None:
        if self.alive:
            self._word = word
            self._send_up(word, None)

    def may_stay(self) -> bool:
        """For the next task. If not, it leaves when nothing is left to end."""
        self._is_abandoned = not self.core.is_blank
        return not self._is_abandoned

    def renew(self) -> None:
        self.hear(encode(Envelope(WhoAreYou())))

    def end(self) -> None:
        """Its worker process has died: its connection ends behind all it said."""
        if self._critical is not None:
            self._critical.die()
        if self.alive:
            self.die()
            self._send_up("closed", None)

    # ---- its connection ------------------------------------------------------------------------------------------

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Send):
            self._send_up("frames", tuple(encode(effect.envelope)))
        elif isinstance(effect, ReplaceConnection):  # its agent has not answered for long
            self.cut()
        else:
            assert isinstance(effect, Finish), effect
            effect.sink.finish(effect.outcome)

    def _drain(self, now: float) -> None:
        super()._drain(now)
        if self._is_abandoned and not self.core.has_unfinished:
            self.core.quit(now)
            for effect in self.core.take_effects(now):
                self.carry_out(effect)
            self.end()

    def hear(self, frames: Any) -> None:
        """From the agent."""
        if not self._is_cut:
            self.down.send((self._connection, frames))

    def _on_frames(self, item: tuple[int, Any]) -> None:
        connection, frames = item
        if connection == self._connection:
            self.post(lambda now: self.core.on_message(SCHEDULER, self.decode(list(frames)), now))

    def _arrive(self, item: tuple[int, str, Any]) -> None:
        """At the agent."""
        connection, word, value = item
        if connection != self._connection:
            return
        core, session = self._agent.core, self.session
        if word == "opened":
            parent = TaskColumn(value.session, (value.task,), (value.attempt,))
            self._agent.post(lambda now: core.on_nested_opened(session, parent, now))
        elif word == "waits for a lock":
            self._post_lock_wait()
        elif word == "frames":
            self._agent.post(lambda now: core.on_nested_frames(session, value, now))
        elif word == "blocked":
            self._agent.post(lambda now: core.on_nested_blocked(session, now))
        else:
            if word == "closed":
                self._agent.nested.pop(session, None)
            self._agent.post(lambda now: getattr(core, f"on_nested_{word}")(session, now))

    def _post_lock_wait(self) -> None:
        self._agent.post(lambda now: self._agent.core.on_nested_waits_for_lock(self.session, now))


def check_failure(payload: bytes, deaths: dict[bytes, int], may_miss: bool = False) -> None:
    """A parent that was not cancelled fails only with a child that killed its processes three times, or whose object
    was lost."""
    culprit, _, status = payload.rpartition(b":")
    if int(status) == Status.OBJECT_MISSING:
        assert may_miss, payload
    else:
        assert int(status) == Status.PROCESSOR_DIED and deaths.get(culprit, 0) >= 3, payload
