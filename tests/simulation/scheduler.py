"""A simulated scheduler: the real core; a restart is a new core with a new epoch."""

from __future__ import annotations

from typing import Any

from scaler_protocol.effects import ClosePeer, Send
from scaler_scheduler.core.effects import Quit
from scaler_scheduler.core.scheduler import SchedulerCore
from scaler_scheduler.core.settings import Settings
from tests.simulation.network import Frames, Network
from tests.simulation.node import Node
from tests.simulation.world import World

ADDRESS = "tcp://127.0.0.1:2345"


class SchedulerNode(Node):
    """One process of the scheduler, from its start to its end."""

    def __init__(self, world: World, network: Network, **settings: Any) -> None:
        super().__init__(world, "scheduler")
        self.network = network
        self.sent: dict[str, int] = {}
        self.core = SchedulerCore(
            Settings(
                address=ADDRESS,
                session=world.chance.randbytes(16),
                epoch=world.chance.randrange(1, 2**63),
                **settings,
            ),
            world.now,
        )
        network.start_router(self)

    def kill(self) -> None:
        self.die()
        self.network.stop_router()

    # ---- the network -------------------------------------------------------------------------------------------

    def on_frames(self, peer: bytes, frames: Frames) -> None:
        self.post(lambda now: self.core.on_message(peer, self.decode(frames), now))

    def on_disconnected(self, peer: bytes) -> None:
        self.post(lambda now: self.core.on_peer_lost(peer, now))

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Send):
            name = type(effect.envelope.body).__name__
            self.sent[name] = self.sent.get(name, 0) + 1
            self.network.send_down(effect.peer, self.encode(effect.envelope))
        elif isinstance(effect, (ClosePeer, Quit)):
            raise AssertionError(f"the scheduler wants {effect}: {self.log[-3:]}")
        else:
            raise AssertionError(effect)
