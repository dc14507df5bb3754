"""Peers that lie: clients that reuse numbers and cancel others' tasks, agents that report what they never had."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

from scaler_protocol.codec import encode
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, place_of
from scaler_protocol.link import Link, LinkGap
from scaler_protocol.messages import (
    AgentAttach,
    Challenge,
    Envelope,
    Hello,
    Results,
    Role,
    Status,
    TaskColumn,
    Tasks,
    Welcome,
)
from tests.simulation import lies
from tests.simulation.lies import Lies, Lore
from tests.simulation.network import Connection, Frames, Network
from tests.simulation.scheduler import ADDRESS, TOKEN
from tests.simulation.world import World

ACT_SECONDS = (0.0, 0.3)

PROVEN_SHARE = 0.9
"""Of Hellos: without a proof a liar is not heard."""


class Lying(Protocol):
    def act(self) -> None: ...

    def leave(self) -> None: ...


def lie_until(liar: Lying, world: World, chance: random.Random, end: float) -> None:
    if world.now < end:
        liar.act()
        world.after(chance.uniform(*ACT_SECONDS), lambda: lie_until(liar, world, chance, end))
    else:
        liar.leave()


class Liar:
    """Keeps the rules of connections, mostly, so that its lies are heard. ``act`` does one thing."""

    def __init__(self, world: World, network: Network, role: Role, lore: Lore, chance: random.Random) -> None:
        self.role = role
        self.session = chance.randbytes(15) + b"L"
        self.lies = Lies(chance, lore, self.session)
        self._lore = lore
        self._chance = chance
        self._world = world
        self._link = Link()
        self._epoch = 0
        self._is_attached = False
        self._kinds = lies.FROM_AGENTS if role == Role.WORK else lies.FROM_CLIENTS
        self._answers: list[Tasks] = []
        self._handshake = PeerHandshake(place_of(ADDRESS), chance.randbytes(NONCE_SIZE_BYTES), TOKEN)
        lore.sessions.append(self.session)
        network.liars.add(self.session)
        self.connection: Connection = network.join(self)

    def lie_until(self, end: float) -> None:
        """Act again and again, then leave."""
        lie_until(self, self._world, self._chance, end)

    def leave(self) -> None:
        self.connection.close()

    def act(self) -> None:
        roll = self._chance.random()
        if roll < 0.6:
            self.say(self.lies.body(self._kinds))
        elif roll < 0.7 and self._answers:
            self._answer(self._answers.pop(0))
        elif roll < 0.8:
            self.say(self.lies.body(lies.ALL))
        elif roll < 0.88:
            self._say_hello()
        elif roll < 0.92:
            self._send(Envelope(self.lies.body(self._kinds), self._chance.choice([0, 1, 2, 2**64 - 1]), 0))
        elif roll < 0.96:
            self._send_mutated()
        else:
            self.connection.cut()

    def say(self, body: lies.Body) -> None:
        """Numbered, as the link wants it."""
        self._send(self._link.wrap(body))

    # ---- the network -------------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        self._say_hello()

    def on_disconnected(self) -> None:
        pass

    def on_frames(self, frames: Frames) -> None:
        envelope = lies.read(frames)
        assert envelope is not None, "a scheduler sends what cannot be read"
        self._lore.learn(envelope)
        if isinstance(envelope.body, Welcome):
            self._on_welcome(envelope.body)
            return
        if isinstance(envelope.body, Challenge):
            self._prove(envelope.body)
            return
        try:
            if not self._link.accept(envelope):
                return
        except LinkGap:
            self._say_hello()
            return
        if isinstance(envelope.body, Tasks):
            self._answers.append(envelope.body)

    # ---- inside ------------------------------------------------------------------------------------------------

    def _send(self, envelope: Envelope) -> None:
        try:
            frames = encode(envelope)
        except (ValueError, TypeError):
            return
        self.connection.send_up(frames)

    def _send_mutated(self) -> None:
        frames = encode(Envelope(self.lies.body(self._kinds), self._link.sent + 1, self._link.received))
        self.connection.send_up(lies.mutated(frames, self._chance))

    def _say_hello(self) -> None:
        hello = self.lies.hello(self.role)
        if self._chance.random() < PROVEN_SHARE:
            hello = self._handshake.begin(hello)
        self._send(Envelope(hello))

    def _prove(self, challenge: Challenge) -> None:
        hello = self._handshake.answer(challenge)
        if hello is not None:
            self._send(Envelope(hello))

    def _on_welcome(self, welcome: Welcome) -> None:
        if welcome.resumed and welcome.epoch == self._epoch:
            return
        self._epoch = welcome.epoch
        self._link = Link()
        if self.role == Role.WORK:
            holds = tuple(self.lies.column() for _ in range(self._chance.randint(0, 2)))
            if self._chance.random() < 0.2:
                self.say(self.lies.manager_report())
            self.say(AgentAttach("liar", "host", 1, ("a", "b"), (), holds))

    def _answer(self, tasks: Tasks) -> None:
        """As an agent does that has run them: with results of its own invention."""
        for run in tasks.runs:
            rows = [
                (run.first_task + index, run.attempt, Status.SUCCESS, b"a lie", 5, 5, 0) for index in range(run.count)
            ]
            self.say(Results([lies.ResultRun(run.session, rows)]))


class LyingNestedClient:
    """Opens and closes, says that it waits and does not, and relays lies, at any of the agents and in any order."""

    def __init__(self, world: World, agents: Sequence[Any], lore: Lore, chance: random.Random) -> None:
        self._world = world
        self._agents = agents
        self._chance = chance
        self._lore = lore
        self._sessions = [chance.randbytes(15) + b"N" for _ in range(3)]
        self._lies = Lies(chance, lore, self._sessions[0])
        self._link = Link()

    def lie_until(self, end: float) -> None:
        lie_until(self, self._world, self._chance, end)

    def act(self) -> None:
        agent = self._chance.choice(self._agents)
        core, session = agent.core, self._chance.choice(self._sessions)
        roll = self._chance.random()
        if roll < 0.2:
            parent = self._parent(agent)
            agent.post(lambda now: core.on_nested_opened(session, parent, now))
            self._relay(agent, session, Envelope(self._hello(session, parent)))
        elif roll < 0.7:
            self._lies.session = session
            body = self._lies.body(lies.FROM_CLIENTS if self._chance.random() < 0.8 else lies.ALL)
            self._relay(agent, session, self._link.wrap(body))
        elif roll < 0.8:
            agent.post(lambda now: core.on_nested_blocked(session, now))
        elif roll < 0.9:
            agent.post(lambda now: core.on_nested_unblocked(session, now))
        else:
            self._link = Link()
            agent.post(lambda now: core.on_nested_closed(session, now))

    def leave(self) -> None:
        for agent in self._agents:
            for session in self._sessions:
                agent.post(lambda now, core=agent.core, session=session: core.on_nested_closed(session, now))

    def _parent(self, agent: Any) -> TaskColumn:
        """A task that runs there, mostly."""
        for process in agent.processes.values():
            if process.running_name is not None and self._chance.random() < 0.8:
                session, task, attempt = process.running_name
                return TaskColumn(session, (task,), (attempt,))
        return TaskColumn(self._lies.name(), (self._lies.task(),), (self._lies.attempt(),))

    def _hello(self, session: bytes, parent: TaskColumn) -> Hello:
        return Hello(
            role=Role.SUBMIT if self._chance.random() < 0.9 else Role.WORK, session=session, token=b"",
            parent_session=parent.session, parent_task=parent.tasks[0], parent_attempt=parent.attempts[0],
        )  # fmt: skip

    def _relay(self, agent: Any, session: bytes, envelope: Envelope) -> None:
        try:
            frames = tuple(encode(envelope))
        except (ValueError, TypeError):
            return
        agent.post(lambda now: agent.core.on_nested_frames(session, frames, now))
