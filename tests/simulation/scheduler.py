"""A simulated scheduler: the real core; a restart is a new core with a new epoch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scaler_protocol.codec import MalformedMessage
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, ServerHandshake, place_of, places_of
from scaler_protocol.messages import Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.records import AGAIN
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingReader, RingWriter
from scaler_scheduler.core.effects import Audit, Describe, Quit, Trouble
from scaler_scheduler.core.scheduler import SchedulerCore
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.shell.audit_log import line_of
from tests.simulation.network import Frames, Network
from tests.simulation.node import Node
from tests.simulation.world import World

ADDRESS = "tcp://127.0.0.1:2345"
TOKEN = b"0" * 64


def new_handshake(world: World) -> PeerHandshake:
    """A peer's end."""
    return PeerHandshake(place_of(ADDRESS), world.chance.randbytes(NONCE_SIZE_BYTES))


class SchedulerNode(Node):
    """One process of the scheduler, from its start to its end."""

    def __init__(self, world: World, network: Network, **settings: Any) -> None:
        super().__init__(world, "scheduler")
        self.network = network
        self.sent: dict[str, int] = {}
        self.audit_log: list[str] = []
        self.core = SchedulerCore(
            Settings(
                address=ADDRESS,
                session=world.chance.randbytes(16),
                epoch=world.chance.randrange(1, 2**63),
                handshake=ServerHandshake(TOKEN, world.chance.randbytes(NONCE_SIZE_BYTES), places_of(ADDRESS)),
                **settings,
            ),
            world.now,
        )
        memory = bytearray(RING_HEADER_BYTES + 1024 * 1024)
        self._records = RingReader(memory)
        self._ended: Counter[int] = Counter()
        self.core.watch(RingWriter(memory), 0.0, world.now)
        network.start_router(self)

    def kill(self) -> None:
        self.die()
        self.network.stop_router()

    # ---- the network -------------------------------------------------------------------------------------------

    def on_frames(self, peer: bytes, frames: Frames) -> None:
        self.post(lambda now: self._feed(peer, frames, now))
        self._read_records()

    def _feed(self, peer: bytes, frames: Frames, now: float) -> None:
        self.received += 1
        try:
            envelope = self.decode(frames)
        except MalformedMessage as error:
            self.core.on_malformed(peer, str(error), now)
        else:
            self.core.on_message(peer, envelope, now)

    def on_disconnected(self, peer: bytes) -> None:
        self.post(lambda now: self.core.on_peer_lost(peer, now))

    def note(self, log: Log, now: float) -> None:
        assert not log.text.startswith("A count was wrong"), log.text
        super().note(log, now)

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Send):
            name = type(effect.envelope.body).__name__
            is_liar = effect.peer in self.network.liars
            assert name != "Refused" or is_liar, f"the scheduler refuses {effect.peer.hex()[:8]}: {self.log[-3:]}"
            self.sent[name] = self.sent.get(name, 0) + 1
            self.network.send_down(effect.peer, self.encode(effect.envelope))
        elif isinstance(effect, Describe):
            self.post(lambda now: self.core.on_described(b"a snapshot", now))
        elif isinstance(effect, Audit):
            self.audit_log.append(line_of(effect))
        elif isinstance(effect, Trouble):
            raise AssertionError(f"{effect.text}: {self.log[-3:]}") from effect.error
        elif isinstance(effect, Quit):
            raise AssertionError(f"the scheduler wants {effect}: {self.log[-3:]}")
        else:
            raise AssertionError(effect)

    # ---- what monitors are told --------------------------------------------------------------------------------

    def check_records(self) -> None:
        """The event records say of as many tasks that they ended, and how, as the core has counted."""
        self._read_records()
        assert self.core.state.events.dropped == 0
        counted = Counter({status: self.core.state.totals.outcome(status) for status in Status})
        counted[Status.SUCCESS_LARGE] += sum(
            client.table.columns.count(TaskState.DONE_LARGE) for client in self.core.state.clients.values()
        )
        assert +self._ended == +counted

    def _read_records(self) -> None:
        data, _, _ = self._records.take(1024 * 1024)
        for record in records.records(data):
            if record.kind in records.ENDINGS:
                statuses = records.ended_columns(record).statuses
                self._ended.update(status for status in statuses.tolist() if not status & AGAIN)
