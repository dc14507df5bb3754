"""A scheduler that also says what is not so, and clusters that have one for a while."""

from __future__ import annotations

import random
from typing import Any

from scaler_protocol.codec import encode
from scaler_protocol.messages import Drain, Refused, Role, Stop
from tests.simulation import lies
from tests.simulation.lies import Lies, Lore
from tests.simulation.network import Network
from tests.simulation.objects import ObjectCluster, ObjectScenario
from tests.simulation.scheduler import SchedulerNode
from tests.simulation.world import World

ENDINGS = (Stop, Drain, Refused)
"""A peer that is told one of these ends: that is no lie."""

KINDS = tuple(each for each in lies.FROM_SCHEDULERS if each not in ENDINGS)

UNNUMBERED_SHARE = 0.1


class LyingScheduler(SchedulerNode):
    """The real core, whose peers are told other things besides. ``chance`` decides when and what."""

    def __init__(self, world: World, network: Network, lore: Lore, chance: random.Random, **settings: Any) -> None:
        super().__init__(world, network, **settings)
        self._chance = chance
        self._lies = Lies(chance, lore, self.core.state.settings.session)

    def lie_to(self, role: Role) -> None:
        """Something to one of the agents or clients that are there."""
        known = self.core.state.agents if role == Role.WORK else self.core.state.clients
        peers = [peer for peer in known.values() if peer.connection.is_open and peer.route is None]
        if not peers:
            return
        peer = self._chance.choice(peers)
        self._lies.session = peer.session
        body = self._lies.body(KINDS if self._chance.random() < 0.9 else lies.ALL)
        if type(body) in ENDINGS or lies.read(encode(lies.Envelope(body))) is None:
            return
        is_unnumbered = self._chance.random() < UNNUMBERED_SHARE
        envelope = lies.Envelope(body, self._chance.randint(0, 9)) if is_unnumbered else peer.link.wrap(body)
        self.network.send_down(peer.session, encode(envelope))
        self.post(lambda now: None)


class LiedToCluster(ObjectCluster):
    """Agents and clients have a lying scheduler, then an honest one. Each of their tasks ends once."""

    def __init__(self, seed: int, scenario: ObjectScenario, chance: random.Random) -> None:
        self.lore = Lore()
        self._chance = chance
        self._is_lying = True
        super().__init__(seed, scenario)
        peers = [peer.session for peer in (*self.clients, *self.agents)]
        self.lore.sessions.extend(peers)
        self.network.liars.update(peers)  # what they answer to lies may be refused

    def lie_to(self, role: Role) -> None:
        assert isinstance(self.scheduler, LyingScheduler)
        self.scheduler.lie_to(role)

    def finish(self) -> None:
        self._is_lying = False
        self.scheduler.kill()
        super().finish()

    def check_ends(self) -> None:
        """In whatever way."""
        for client in self.clients:
            for sink in (*client.sinks, *client.graph_sinks, *client.results):
                assert len(sink.outcomes) + (sink.cancelled and not sink.outcomes) == 1, (sink.argument, sink.outcomes)

    def _check_quiet(self) -> None:
        """What was kept because of a lie may be kept."""

    def _start_scheduler(self, **settings: Any) -> SchedulerNode:
        if not self._is_lying:
            return super()._start_scheduler(**settings)
        retention = self.scenario.object_retention_seconds
        return LyingScheduler(
            self.world, self.network, self.lore, self._chance, object_retention_seconds=retention,
            client_timeout_seconds=self.scenario.client_timeout_seconds, cluster=b"simulated cluster"[:16], **settings,
        )  # fmt: skip
