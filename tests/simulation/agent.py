"""A simulated agent: the real core, with simulated worker processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler_protocol.effects import Send
from scaler_protocol.handshake import make_hello
from scaler_protocol.messages import Capability, ObjectKey, Role
from scaler_protocol.profile import ProfileTree
from scaler_scheduler.core import draining
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.effects import (
    AttachStore,
    BeginProfile,
    DispatchTasks,
    DropObjects,
    DropStored,
    EndProfile,
    Exit,
    FetchStored,
    FindStored,
    ForgetOwner,
    InstallPackages,
    Interrupt,
    JoinStore,
    Kill,
    ReadOutput,
    ReadStack,
    ReadStored,
    Reconnect,
    ReleasePackages,
    RenewNested,
    SendNested,
    StartWorkerProcess,
)
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.worker import WorkerCore
from tests.simulation.locks import Keeper
from tests.simulation.nested import NestedClient
from tests.simulation.network import Connection, Frames, Network
from tests.simulation.node import Node
from tests.simulation.scheduler import TOKEN, SchedulerNode, new_handshake
from tests.simulation.stores import Host
from tests.simulation.troupe import Troupe
from tests.simulation.worker_process import SimulatedWorkerProcess
from tests.simulation.world import World
from tests.unit.worker.playbook import DictStore

START_SECONDS = (0.002, 0.02)
SIGNAL_SECONDS = (0.0001, 0.003)
HEARTBEAT_SECONDS = 2.0


class AgentNode(Node):
    def __init__(
        self,
        world: World,
        network: Network,
        slots: int,
        executions: dict[bytes, int],
        deaths: dict[bytes, int],
        host: Host | None = None,
        keeper: Keeper | None = None,
        capabilities: tuple[Capability, ...] = (),
        distance_seconds: float = 0.0,
        grace_seconds: float = 10.0,
    ) -> None:
        """Counted by argument: how often a task was started, and how often its process died of it. ``host``: has a
        store for large objects."""
        super().__init__(world, "agent")
        self.session = world.chance.randbytes(16)
        self.processes: dict[int, SimulatedWorkerProcess] = {}
        self.nested: dict[bytes, NestedClient] = {}
        self.installed: set[tuple[str, ...]] = set()
        self.nested_client: type[NestedClient] = NestedClient
        self.host = host
        self.keeper = keeper or Keeper()
        self.troupe = Troupe()
        self.is_leaving = False
        self._executions = executions
        self._deaths = deaths
        names = tuple(f"worker {number}" for number in range(slots))
        hello = make_hello(Role.WORK, self.session)
        self.store = DictStore()
        settings = AgentSettings("agent", names, capabilities, uses_store=host is not None, grace_seconds=grace_seconds)
        self.core = WorkerCore(settings, hello, self.store, world.now, new_handshake(world))
        self.connection: Connection = network.join(self, distance_seconds)
        self.post(lambda now: None)
        self._report()

    def _report(self) -> None:
        """A heartbeat, again and again."""
        self.post(lambda now: self.core.report(0.0, 0, 0, (), now))
        if self.alive:
            self.world.after(HEARTBEAT_SECONDS, self._report)

    def leave(self) -> None:
        """SIGTERM: it leaves cleanly."""
        self.is_leaving = True
        self.post(lambda now: self.core.on_stop(now))

    def drain(self, scheduler: SchedulerNode) -> None:
        """The scheduler tells it to leave, if it knows it."""

        def tell(now: float) -> None:
            agent = scheduler.core.state.agents.get(self.session)
            if agent is not None and agent.attached:
                draining.drain(scheduler.core.state, agent, now)

        self.is_leaving = True
        scheduler.post(tell)

    def kill(self) -> None:
        """SIGKILL: its worker processes die with it."""
        for process in self.processes.values():
            process.die()
        self.die()
        self.connection.close()
        if self.host is not None:
            self.host.lose_agent()

    def kill_worker_process(self) -> None:
        numbers = [number for number, process in self.processes.items() if process.alive]
        if numbers:
            self._end_worker_process(self.world.chance.choice(numbers))

    def check_empty(self) -> None:
        """Nothing is left of the tasks that ended."""
        assert self.core.slots.is_idle
        assert not self.core.state.actors and self.core.state.lent[0] == 0
        assert not self.core.state.nodes, "values are kept for ever"
        assert not self.store.objects, list(self.store.objects)
        objects = self.core.state.objects
        assert not objects._complete and not objects.stored and not objects._incoming, "objects are kept for ever"
        if self.host is not None:
            assert not self.host.store.objects, list(self.host.store.objects)
        assert not self.core.state.retained, f"{len(self.core.state.retained)} results are kept for ever"

    # ---- the network -------------------------------------------------------------------------------------------

    def on_frames(self, frames: Frames) -> None:
        self.received += 1
        self.post(lambda now: self.core.on_message(SCHEDULER, self.decode(frames), now))

    def on_connected(self) -> None:
        self.post(lambda now: self.core.on_connected(TOKEN, now))

    def on_disconnected(self) -> None:
        self.post(lambda now: self.core.on_peer_lost(SCHEDULER, now))

    # ---- worker processes --------------------------------------------------------------------------------------------

    def on_news(self, process: SimulatedWorkerProcess) -> None:
        self.post(lambda now: self.core.on_worker_process_news(process.number, now))

    def on_memory(self, process: SimulatedWorkerProcess) -> None:
        """Somebody has measured that its task uses more than it may."""
        self.post(lambda now: self.core.on_memory_exceeded(process.number, now))

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Send):
            self.connection.send_up(self.encode(effect.envelope))
        elif isinstance(effect, StartWorkerProcess):
            self._start_worker_process(effect.number)
        elif isinstance(effect, DispatchTasks):
            here = self.store.objects
            objects = {key: bytes(here[key]) for key in effect.objects if self.host is None or key in here}
            self.processes[effect.number].dispatch(effect, objects)
        elif isinstance(effect, Interrupt):
            process = self.processes[effect.number]
            self.world.after(self.world.between(*SIGNAL_SECONDS), process.interrupt)
        elif isinstance(effect, Kill):
            self._end_worker_process(effect.number)
        elif isinstance(effect, DropObjects):
            self.processes[effect.number].drop_objects(effect.keys)
        elif isinstance(effect, SendNested):
            if effect.session in self.nested:
                self.nested[effect.session].hear(effect.frames)
        elif isinstance(effect, RenewNested):
            if effect.session in self.nested:
                self.nested[effect.session].renew()
        elif isinstance(effect, Reconnect):
            self.connection.cut()
        elif isinstance(effect, ReadStack):
            text = self.world.chance.choice((None, "", "Thread 0x1\n  File x\x1b[2J", "x" * 70_000))
            self._later(lambda now: self.core.on_stack(effect.request, text, now))
        elif isinstance(effect, EndProfile):
            self._later(lambda now: self.core.on_profile(effect.number, ProfileTree(), now))
        elif isinstance(effect, InstallPackages):
            self._install(effect.requirements)
        elif isinstance(effect, ReleasePackages):
            self.installed.discard(effect.requirements)
        elif isinstance(effect, Exit):
            assert self.is_leaving and not effect.code, effect
            self.kill()
        else:
            if isinstance(effect, (BeginProfile, ReadOutput)):  # nothing is printed or sampled here
                return
            assert self.host is not None, effect
            self._use_store(self.host, effect)

    def _later(self, action: Callable[[float], None]) -> None:
        self.world.after(self.world.between(*SIGNAL_SECONDS), lambda: self.post(action))

    def _install(self, requirements: tuple[str, ...]) -> None:
        self.installed.add(requirements)
        if self.world.chance.random() < 0.5:
            self._later(lambda now: self.core.on_packages_installed(requirements, now))
        else:
            self._later(lambda now: self.core.on_packages_failed(requirements, "no such package", now))

    def _use_store(self, host: Host, effect: Any) -> None:
        if isinstance(effect, (JoinStore, AttachStore)):
            host.agent = self
            host.introduce()
        elif isinstance(effect, FindStored):
            for key in effect.keys:
                host.find(key)
        elif isinstance(effect, FetchStored):
            host.fetch(effect.key, effect.sources)
        elif isinstance(effect, ReadStored):
            host.read(effect.key)
        elif isinstance(effect, DropStored):
            host.drop(effect.keys)
        else:
            assert isinstance(effect, ForgetOwner), effect
            host.forget(effect.owner)

    def keep_large(self, number: int, sequence: int, key: ObjectKey, data: bytes) -> bytes:
        """What stands for a large result, which is in the host's store or on its way to the agent."""
        size = len(data).to_bytes(8, "little")
        if self.host is None or not self.host.store.has_room(len(data)):
            self.store.results[number, sequence] = data
            return size
        self.host.store.objects[key] = data
        return size + self.host.store.id

    def stored(self, key: ObjectKey) -> bytes | None:
        return None if self.host is None else self.host.store.objects.get(key)

    def _start_worker_process(self, number: int) -> None:
        process = SimulatedWorkerProcess(self.world, self, number, self._executions, self.keep_large)
        self.processes[number] = process
        self.post(lambda now: self.core.on_worker_process_started(number, process.board, 1000 + number, now))

        def ready() -> None:
            if process.alive:
                self.post(lambda now: self.core.on_worker_process_ready(number, now))

        self.world.after(self.world.between(*START_SECONDS), ready)

    def _end_worker_process(self, number: int) -> None:
        process = self.processes[number]
        if process.alive:
            for argument in process.running_arguments:
                self._deaths[argument] = self._deaths.get(argument, 0) + 1
            process.die()
            certificate = {"signal": "SIGKILL"}
            self.world.after(
                self.world.between(*SIGNAL_SECONDS),
                lambda: self.post(lambda now: self.core.on_worker_process_died(number, certificate, now)),
            )
