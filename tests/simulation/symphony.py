"""A simulated agent of Symphony: the real core, and a Symphony whose sessions end as chance will have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler_protocol.effects import Send
from scaler_protocol.handshake import make_hello
from scaler_protocol.messages import Role, Status
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.effects import Reconnect
from scaler_worker.core.settings import AgentSettings
from scaler_worker.symphony.core.agent import SymphonyCore
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.effects import OpenSession, SendInput
from tests.simulation.agent import HEARTBEAT_SECONDS
from tests.simulation.graphs import result_of
from tests.simulation.network import Connection, Frames, Network
from tests.simulation.node import Node
from tests.simulation.scheduler import TOKEN, new_handshake
from tests.simulation.worker_process import DURATIONS_SECONDS
from tests.simulation.world import World

OPEN_SECONDS = (0.001, 0.2)
TRIP_SECONDS = (0.0001, 0.003)
REFUSED_SESSIONS_SHARE = 0.3
REFUSED_INPUTS_SHARE = 0.01
REPEATED_SHARE = 0.05


class SymphonyNode(Node):
    """``executions`` counts by argument how often a task was started."""

    def __init__(self, world: World, network: Network, slots: int, executions: dict[bytes, int]) -> None:
        super().__init__(world, "symphony")
        self.session = world.chance.randbytes(16)
        self._executions = executions
        self._slots = slots
        self._open: int | None = None
        self._there: dict[int, bool] = {}
        names = tuple(f"slot {number}" for number in range(slots))
        hello = make_hello(Role.WORK, self.session)
        self.core: SymphonyCore = SymphonyCore(AgentSettings("symphony", names), hello, world.now, new_handshake(world))
        self.connection: Connection = network.join(self)
        self.post(lambda now: None)
        self._report()

    def _report(self) -> None:
        self.post(lambda now: self.core.report(0.0, 0, 0, (), now))
        if self.alive:
            self.world.after(HEARTBEAT_SECONDS, self._report)

    def kill(self) -> None:
        """SIGKILL: its session ends, and so do the session's tasks."""
        self._there.clear()
        self.die()
        self.connection.close()

    def kill_worker_process(self) -> None:
        """The session ends. Symphony may say first of some of its tasks that they have failed."""
        session, self._open = self._open, None
        if session is None:
            return
        for number in list(self._there):
            if self.world.chance.random() < 0.3:
                self._tell(lambda now, number=number: self.core.on_failure(number, "ended", now))
        self._there.clear()
        self.world.after(
            TRIP_SECONDS[1], lambda: self.post(lambda now: self.core.on_session_failed(session, "it ended", now))
        )

    def check_empty(self) -> None:
        """Nothing is left of the tasks that ended."""
        grid = self.core.grid
        assert grid.is_idle and not grid.sent.by_number and not self._there
        assert not self.core.state.nodes, "values are kept for ever"
        assert not grid._losses and not grid._refusals
        assert not self.core._store._contents and not self.core._store._results
        assert not self.core.state.retained, f"{len(self.core.state.retained)} results are kept for ever"

    # ---- the network -------------------------------------------------------------------------------------------

    def on_frames(self, frames: Frames) -> None:
        self.post(lambda now: self.core.on_message(SCHEDULER, self.decode(frames), now))

    def on_connected(self) -> None:
        self.post(lambda now: self.core.on_connected(TOKEN, now))

    def on_disconnected(self) -> None:
        self.post(lambda now: self.core.on_peer_lost(SCHEDULER, now))

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Send):
            self.connection.send_up(self.encode(effect.envelope))
        elif isinstance(effect, SendInput):
            self._take(effect)
        elif isinstance(effect, OpenSession):
            self.world.after(self.world.between(*OPEN_SECONDS), lambda: self._open_session(effect.session))
        elif isinstance(effect, Reconnect):
            self.connection.cut()
        else:
            raise AssertionError(effect)

    # ---- Symphony ------------------------------------------------------------------------------------------------

    def _tell(self, action: Callable[[float], None]) -> None:
        self.world.after(self.world.between(*TRIP_SECONDS), lambda: self.post(action))

    def _open_session(self, session: int) -> None:
        if self.world.chance.random() < REFUSED_SESSIONS_SHARE:
            self.post(lambda now: self.core.on_session_failed(session, "busy", now))
            return
        self._there.clear()  # of the session before: if it has not ended, its agent has given it up
        self._open = session
        self.post(lambda now: self.core.on_session_opened(session, now))

    def _take(self, effect: SendInput) -> None:
        if effect.session != self._open:
            return
        number = effect.number
        if self.world.chance.random() < REFUSED_INPUTS_SHARE:
            self._tell(lambda now: self.core.on_refused(number, "full", now))
            return
        self.post(lambda now: self.core.on_taken(number, now))
        argument, *inputs = [bytes(slot) for slot in effect.call.slots]
        self._executions[argument] = self._executions.get(argument, 0) + 1
        self._there[number] = True
        assert len(self._there) <= self._slots, "nothing here is nested"
        seconds = self.world.between(*DURATIONS_SECONDS[effect.call.function_name])
        self.world.after(
            seconds, lambda: self._end(number, SymphonyAnswer(int(Status.SUCCESS), result_of(argument, inputs)))
        )

    def _end(self, number: int, answer: SymphonyAnswer) -> None:
        if not self._there.pop(number, False):
            return
        for _ in range(1 + (self.world.chance.random() < REPEATED_SHARE)):
            self._tell(lambda now: self.core.on_answer(number, answer, now))
