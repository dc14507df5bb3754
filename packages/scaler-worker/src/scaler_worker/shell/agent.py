"""The agent's shell: between the scheduler, the worker processes, clients inside tasks, and the core."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from scaler_protocol.address import parse_address
from scaler_protocol.codec import encode, split, split_results
from scaler_protocol.command import BadInput, current_parent, install_stop_signals, new_event_loop
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.command.service_manager import notify
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.handshake import make_hello
from scaler_protocol.heartbeat_slots import seconds_to_next
from scaler_protocol.ids import new_session
from scaler_protocol.messages import (
    Envelope,
    HostSoftware,
    ObjectKey,
    Results,
    Role,
    StoreSettings,
    StoreStatus,
    TaskColumn,
    Tasks,
    WorkerStatus,
)
from scaler_protocol.options import values_of
from scaler_protocol.profile import ProfileTree
from scaler_worker.board import Board
from scaler_worker.config import OBJECT_RETENTION_SECONDS, ClusterSettings
from scaler_worker.core.agent import BAD_INPUT_CODE
from scaler_worker.core.effects import (
    AttachStore,
    BeginProfile,
    DispatchTasks,
    DropObjects,
    DropStored,
    Echo,
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
    ReleasePackages,
    RenewNested,
    Resume,
    SendNested,
    StartWorkerProcess,
    Suspend,
)
from scaler_worker.core.memory_pressure import is_exhausted
from scaler_worker.core.settings import AgentSettings, ExecutionOptions
from scaler_worker.core.worker import WorkerCore
from scaler_worker.devices import assign_devices
from scaler_worker.module_cache import remove_unused
from scaler_worker.pinning import assign_processors, bind_process, read_processors
from scaler_worker.shell.conversation import Conversation, SchedulerConnection
from scaler_worker.shell.echo import HostEcho
from scaler_worker.shell.host_store import AgentHostStore, local_host_towards
from scaler_worker.shell.nested import NestedListener
from scaler_worker.shell.packages import HostPackages
from scaler_worker.shell.profiles import HostProfiles
from scaler_worker.shell.resources import ProcessMeter, host_memory_bytes, private_bytes, resident_bytes
from scaler_worker.shell.software import READ_AFTER_SECONDS, read_software
from scaler_worker.shell.stacks import HostStacks
from scaler_worker.shell.termination_watch import TerminationWatch
from scaler_worker.shell.worker_processes import WorkerProcesses
from scaler_worker.shell.zygote import Zygote
from scaler_worker.system import adopt_orphans
from scaler_worker.termination_notice import PROVIDERS
from scaler_worker.worker_process.channel import INTERRUPT_SIGNAL, STDERR, VALUES, WorkerProcessOptions, pack_number

MEMORY_CHECK_SECONDS = 0.1
HOST_MEMORY_CHECK_SECONDS = 0.5

_Value = TypeVar("_Value")


class AgentShell:
    """One host's agent in one event loop. ``run`` returns its exit code."""

    def __init__(
        self,
        settings: ClusterSettings,
        worker_count: int,
        zygote: Zygote,
        loop: asyncio.AbstractEventLoop,
        log_tail: LogTail,
    ) -> None:
        self._settings = settings
        self._devices = assign_devices(settings.capabilities, worker_count, os.environ)
        allowed = sorted(os.sched_getaffinity(0))
        self._processors = assign_processors(settings.pin_workers, worker_count, read_processors(allowed))
        self._loop = guarded = GuardedLoop(loop, TurnGuard("Agent"))
        session = new_session()
        connection = SchedulerConnection(settings.address, session, settings.io_threads)
        self._nested = NestedListener(guarded, self)
        self._worker_processes = WorkerProcesses(guarded, zygote, self._worker_process_options, self)
        self._core = WorkerCore(
            _core_settings(settings, worker_count, fixed_slots=any(self._devices) or any(self._processors)),
            make_hello(Role.WORK, session, distribution="scaler-worker"),
            self._worker_processes.store,
            time.monotonic(),
            connection.handshake,
            self._worker_processes.read_written,
        )
        self._packages = HostPackages(guarded, self, settings.environments_kept)
        self._stacks = HostStacks(guarded, self)
        self._profiles = HostProfiles(guarded, self, self._named_processes)
        self._host_store = AgentHostStore(guarded, self, _store_settings(settings))
        self._conversation = Conversation(self._core, connection, guarded, self._effects())
        self._echo = HostEcho()
        asks = PROVIDERS.get(settings.termination_notices)
        self._termination = None if asks is None else TerminationWatch(guarded, asks, self.termination_announced)
        self._meter = ProcessMeter()
        self._log_tail = log_tail
        self._announced: set[int] = set()
        self._checks_memory = False
        self._exit_code: int | None = None
        self.bad_input = ""
        self._ended = loop.create_future()

    def _effects(self) -> dict[type, Callable[[Any], None]]:
        """The function that carries out each kind of effect of the core."""
        return {
            DispatchTasks: self._dispatch,
            StartWorkerProcess: lambda effect: self._worker_processes.start(effect.number, effect.name),
            Interrupt: lambda effect: self._worker_processes.signal(effect.number, INTERRUPT_SIGNAL),
            Kill: lambda effect: self._worker_processes.kill(effect.number),
            Suspend: lambda effect: self._worker_processes.signal(effect.number, signal.SIGSTOP),
            Resume: lambda effect: self._worker_processes.signal(effect.number, signal.SIGCONT),
            DropObjects: lambda effect: self._worker_processes.drop_objects(effect.number, effect.keys),
            SendNested: lambda effect: self._nested.send(effect.session, effect.frames),
            RenewNested: lambda effect: self._nested.renew(effect.session),
            JoinStore: self._join_store,
            BeginProfile: lambda effect: self._profiles.begin(effect.number, effect.interval_us),
            EndProfile: lambda effect: self._profiles.end(effect.number),
            ReadStack: lambda effect: self._stacks.read(effect.request, self._pid_of(effect.number)),
            ReadOutput: lambda effect: self._worker_processes.read_on(),
            Echo: lambda effect: self._echo.write(effect.stream, effect.data),
            AttachStore: lambda effect: self._host_store.attach(),
            FindStored: lambda effect: self._host_store.find(effect.keys),
            ReadStored: lambda effect: self._host_store.read(effect.key),
            FetchStored: lambda effect: self._host_store.fetch(effect.key, effect.size, effect.sources),
            InstallPackages: lambda effect: self._packages.install(effect.requirements),
            ReleasePackages: lambda effect: self._packages.release(effect.requirements),
            DropStored: lambda effect: self._host_store.drop(effect.keys),
            ForgetOwner: lambda effect: self._host_store.forget(effect.owner),
            Exit: self._exit,
        }

    # ---- life ------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        self._loop.call_later(seconds_to_next(self._settings.heartbeat_interval, time.time()), self._report)
        self._loop.call_later(HOST_MEMORY_CHECK_SECONDS, self._check_host_memory)
        self._loop.call_later(READ_AFTER_SECONDS, read_software, self._loop, self.software_read)
        if self._termination is not None:
            self._termination.begin()
        self._conversation.begin()
        try:
            return int(await self._ended)
        finally:
            self.close()

    def stop(self) -> None:
        self._conversation.tell(self._core.on_stop)

    def close(self) -> None:
        """End every process started here. May be called twice."""
        if self._termination is not None:
            self._termination.end()
        self._worker_processes.close()
        self._packages.close()
        self._echo.close()
        self._conversation.end()

    def disconnect(self) -> None:
        """After ``run``: the sockets."""
        self._nested.close()
        self._host_store.close()
        self._conversation.disconnect()

    # ---- effects ---------------------------------------------------------------------------------------------

    def _dispatch(self, effect: DispatchTasks) -> None:
        runs = effect.tasks.runs
        if len(runs) == 1 and not effect.objects and effect.values is None:
            self._worker_processes.send(effect.number, encode(Envelope(effect.tasks)))
        else:
            self._dispatch_more(effect)
        for run in runs:
            if run.options.memory_bytes:
                self._check_memory_from_now_on()

    def _dispatch_more(self, effect: DispatchTasks) -> None:
        for key in effect.objects:
            self._worker_processes.send_object(effect.number, key)
        values = self._send_values(effect) if effect.values is not None else []
        for tasks in _in_messages(effect.tasks) if len(effect.tasks.runs) > 1 else (effect.tasks,):
            self._worker_processes.send(effect.number, [*values, *encode(Envelope(tasks))])
            values = []

    def _check_memory_from_now_on(self) -> None:
        if not self._checks_memory:
            self._checks_memory = True
            self._loop.call_later(MEMORY_CHECK_SECONDS, self._check_memory)

    def _send_values(self, effect: DispatchTasks) -> list[bytes]:
        """The frames that go ahead of the tasks; what is more than one message is sent at once."""
        groups = list(split_results(effect.values or []))
        number = pack_number(effect.watermark)
        for runs in groups[:-1]:
            self._worker_processes.send(effect.number, [VALUES, number, *encode(Envelope(Results(runs)))])
            number = b""
        return [VALUES, number, *(encode(Envelope(Results(groups[-1]))) if groups else (b"", b""))]

    def _exit(self, effect: Exit) -> None:
        if self._exit_code is None:
            self._exit_code = effect.code
            if effect.code == BAD_INPUT_CODE:
                self.bad_input = effect.text
            else:
                logging.log(logging.ERROR if effect.code else logging.INFO, f"ClusterProcess: exiting: {effect.text}")
            if not self._ended.done():
                self._ended.set_result(effect.code)

    # ---- what the worker processes report --------------------------------------------------------------------------

    def started(self, number: int, board: Board, pid: int) -> None:
        bind_process(pid, self._of_slot(number, self._processors, ()))
        self._conversation.hear(self._core.on_worker_process_started, number, board, pid)

    def not_started(self, number: int, text: str) -> None:
        self._conversation.hear(self._core.on_worker_process_not_started, number, text)

    def not_forked(self, number: int) -> None:
        self._conversation.hear(self._core.on_worker_process_not_forked, number)

    def ready(self, number: int) -> None:
        process = self._core.slots.processes.get(number)
        if process is not None and process.slot is not None and process.slot not in self._announced:
            self._announced.add(process.slot)
            logging.info(f"Worker[{process.slot}] started")
            self._notify_started()
        self._conversation.hear(self._core.on_worker_process_ready, number)
        self._send_report(self._meter.last)  # ahead of its first result

    def _notify_started(self) -> None:
        started, all_of_them = len(self._announced), len(self._core.slots.names)
        notify(STATUS=f"{started} of {all_of_them} workers have started")
        if started == all_of_them:
            notify(READY="1")

    def news(self, number: int) -> None:
        self._conversation.hear(self._core.on_worker_process_news, number)

    def died(self, number: int, certificate: dict[str, Any]) -> None:
        process = self._worker_processes.processes.get(number)
        if process is not None and not process.killed:
            logging.warning(f"Worker process {certificate['pid']} died: {_cause(certificate)}")
        self._conversation.hear(self._core.on_worker_process_died, number, certificate)

    def written(self, number: int, stream: int, data: bytes) -> None:
        self._core.on_written(number, stream, data)

    def printed(self, number: int) -> bool:
        self._conversation.hear(self._core.on_printed, number)
        return not self._core.must_wait_to_print(number)

    def warned(self, number: int, sequence: int, data: bytes, log: bytes) -> None:
        if log:
            self._echo.write(STDERR, log)
        self._core.on_warnings(number, sequence, data)
        self._conversation.expect_turn()

    def has_task(self, number: int, sequence: int) -> bool:
        return self._core.slots.has_task(number, sequence)

    def failed(self, text: str) -> None:
        self._conversation.hear(self._core.on_failed_start, text)

    # ---- what the host's store says ----------------------------------------------------------------------------

    def _join_store(self, effect: JoinStore) -> None:
        self._host_store.join(effect.cluster)
        self._worker_processes.join_store(effect.cluster)

    def store_status(self, status: StoreStatus) -> None:
        self._conversation.hear(self._core.on_store_status, status)

    def store_lost(self) -> None:
        self._conversation.hear(self._core.on_store_lost)

    def stored(self, key: ObjectKey) -> None:
        self._conversation.hear(self._core.on_stored, key)

    def not_stored(self, key: ObjectKey, relayed: bool) -> None:
        self._conversation.hear(self._core.on_not_stored, key, relayed)

    def stored_view(self, key: ObjectKey, view: memoryview | None) -> None:
        self._conversation.hear(self._core.on_stored_view, key, view)

    # ---- stacks ------------------------------------------------------------------------------------------------

    def _pid_of(self, number: int) -> int | None:
        process = self._core.slots.processes.get(number)
        return process.pid if process is not None else None

    def _named_processes(self) -> list[tuple[str, int]]:
        return [(process.name, process.pid) for process in self._core.slots.processes.values() if process.ready]

    def profile(self, number: int, tree: ProfileTree) -> None:
        self._conversation.hear(self._core.on_profile, number, tree)

    def stack(self, request: int, text: str | None) -> None:
        self._conversation.hear(self._core.on_stack, request, text)

    def termination_announced(self) -> None:
        self._conversation.hear(self._core.on_termination_notice)

    def software_read(self, software: HostSoftware) -> None:
        self._conversation.hear(self._core.on_software_read, software)

    # ---- packages of environments ------------------------------------------------------------------------------

    def packages_installed(self, requirements: tuple[str, ...]) -> None:
        self._conversation.hear(self._core.on_packages_installed, requirements)

    def packages_failed(self, requirements: tuple[str, ...], text: str) -> None:
        self._conversation.hear(self._core.on_packages_failed, requirements, text)

    # ---- what clients inside tasks report --------------------------------------------------------------------

    def nested_opened(self, session: bytes, parent: TaskColumn) -> None:
        self._conversation.hear(self._core.on_nested_opened, session, parent)

    def nested_frames(self, session: bytes, frames: tuple[bytes, ...]) -> None:
        self._conversation.hear(self._core.on_nested_frames, session, frames)

    def nested_blocked(self, session: bytes) -> None:
        self._conversation.hear(self._core.on_nested_blocked, session)

    def nested_waits_for_lock(self, session: bytes) -> None:
        self._conversation.hear(self._core.on_nested_waits_for_lock, session)

    def nested_unblocked(self, session: bytes) -> None:
        self._conversation.hear(self._core.on_nested_unblocked, session)

    def nested_closed(self, session: bytes) -> None:
        self._conversation.hear(self._core.on_nested_closed, session)

    # ---- resources -------------------------------------------------------------------------------------------

    def _report(self) -> None:
        self._loop.call_later(seconds_to_next(self._settings.heartbeat_interval, time.time()), self._report)
        self._core.on_logged(self._log_tail.take(), time.monotonic())
        self._send_report(self._meter.read)
        self._worker_processes.reap_orphans()
        self._host_store.ask_status()

    def _send_report(self, read: Callable[[int], tuple[float, int]]) -> None:
        cpu_percent, rss_bytes = read(os.getpid())
        figures = self._figures(read)
        workers = tuple(self._worker_status(figures))
        self._core.on_memory_measured({pid: size for pid, (_, size) in figures.items()}, time.monotonic())
        running_tasks = self._core.slots.running_tasks.report(figures, time.monotonic())
        free, limit = host_memory_bytes()
        self._core.report(cpu_percent, rss_bytes, free, workers, time.monotonic(), running_tasks, limit)
        self._conversation.expect_turn()

    def _worker_status(self, figures: Mapping[int, tuple[float, int]]) -> list[WorkerStatus]:
        """A row for each worker. Processes that run nested tasks in its place count as its own."""
        processes = [each for each in self._core.slots.processes.values() if each.slot is not None]
        processes.sort(key=lambda each: each.slot or 0)
        stand_ins = self._core.slots.stand_ins()
        statuses = []
        for each in processes:
            pids = [each.pid, *stand_ins.get(each.slot or 0, ())]
            cpu_percents, sizes = zip(*(figures.get(pid, (0.0, 0)) for pid in pids), strict=True)
            flags = each.ready, each.busy or each.is_dedicated, each.blocked
            statuses.append(WorkerStatus(each.name, each.pid, sum(cpu_percents), sum(sizes), *flags))
        return statuses

    def _figures(self, read: Callable[[int], tuple[float, int]]) -> dict[int, tuple[float, int]]:
        """Processor time and memory of all worker processes."""
        pids = [each.pid for each in self._core.slots.processes.values() if each.pid]
        self._meter.keep_only({os.getpid(), *pids})
        return {pid: read(pid) for pid in pids}

    def _check_memory(self) -> None:
        self._loop.call_later(MEMORY_CHECK_SECONDS, self._check_memory)
        for number, pid, limit in self._core.slots.memory_limits():
            if resident_bytes(pid) > limit:
                self._conversation.hear(self._core.on_memory_exceeded, number)

    def _check_host_memory(self) -> None:
        self._loop.call_later(HOST_MEMORY_CHECK_SECONDS, self._check_host_memory)
        processes = [each for each in self._core.slots.processes.values() if each.pid and not each.dying]
        if not any(each.busy or each.is_dedicated for each in processes):
            return
        room, limit = host_memory_bytes()
        if is_exhausted(room, limit):
            used_bytes = {each.number: private_bytes(each.pid) for each in processes}
            self._conversation.hear(self._core.on_host_memory_exhausted, used_bytes, limit)

    def _worker_process_options(self, number: int, name: str) -> WorkerProcessOptions:
        settings = self._settings
        return WorkerProcessOptions(
            number=number,
            agent_pid=os.getpid(),
            worker_name=name,
            agent_socket=self._nested.address,
            scheduler_address=settings.address,
            preload=settings.preload or "",
            collect_interval_seconds=settings.garbage_collect_interval_seconds,
            trim_threshold_bytes=settings.trim_memory_threshold_bytes,
            loaded_objects_limit_bytes=settings.per_worker_loaded_objects_size,
            is_spare=number >= len(self._core.slots.names),
            variables=self._of_slot(number, self._devices, {}),
            spill_directory=settings.spill_directory or "",
            echoes_warnings=settings.echo_streamed_output,
        )

    def _of_slot(self, number: int, values: Sequence[_Value], of_spare: _Value) -> _Value:
        """Return what a worker process has of its worker's devices or processors. A spare one, for nested tasks, has
        ``of_spare``: it may use all of the host's."""
        process = self._core.slots.processes.get(number)
        return of_spare if process is None or process.slot is None else values[process.slot]


def run_agent(settings: ClusterSettings, worker_count: int, zygote: Zygote, log_tail: LogTail) -> int:
    """Run this host's agent until it is told to stop or its scheduler is gone for good. Returns the exit code. Monitors
    show the lines of ``log_tail``."""
    adopt_orphans()
    loop = new_event_loop(settings.event_loop)
    try:
        agent = AgentShell(settings, worker_count, zygote, loop, log_tail)
    except (OSError, ValueError) as error:
        zygote.close()
        raise BadInput(str(error)) from None
    install_stop_signals(loop, agent.stop, agent.close)
    logging.info(
        f"ClusterProcess: starting {worker_count} workers, "
        f"heartbeat_interval_seconds={settings.heartbeat_interval:g}, "
        f"object_retention_seconds={OBJECT_RETENTION_SECONDS}"
    )
    parent = current_parent()
    if parent is not None:
        parent.report_ready(pid=os.getpid())
    gc.freeze()  # modules and settings stay: no collection need look at them again
    try:
        code = loop.run_until_complete(agent.run())
    finally:
        for end in (agent.close, agent.disconnect, loop.close, remove_unused):
            _end_quietly(end)
    if agent.bad_input:
        raise BadInput(agent.bad_input)
    return code


def _end_quietly(end: Callable[[], None]) -> None:
    """An agent that ends because it is broken may fail at this, too."""
    try:
        end()
    except Exception:
        logging.exception("The agent failed to shut down cleanly")


def _core_settings(settings: ClusterSettings, worker_count: int, *, fixed_slots: bool) -> AgentSettings:
    host = socket.gethostname()
    default_names = tuple(f"{host}-{os.getpid()}-{index}" for index in range(worker_count))
    return AgentSettings(
        name=f"{host}-{os.getpid()}",
        worker_names=settings.worker_names or default_names,
        capabilities=settings.capabilities,
        fixed_slots=fixed_slots,
        uses_store=True,
        manager=settings.manager or "",
        address=str(settings.address),
        **values_of(ExecutionOptions, settings),
    )


def _store_settings(settings: ClusterSettings) -> StoreSettings:
    """The host's store serves those of other hosts on the address by which this host reaches its scheduler."""
    return StoreSettings(
        settings.object_store_memory,
        settings.spill_directory or "",
        local_host_towards(parse_address(settings.address)),
        receives_log=True,
    )


def _cause(certificate: dict[str, Any]) -> str:
    if certificate["signal"]:
        return str(certificate["signal"]) + (", out of memory" if certificate["out_of_memory"] else "")
    return f"exit code {certificate['exit_code']}"


def _in_messages(tasks: Tasks) -> Iterator[Tasks]:
    """Many short tasks with much data each are more than one message; definitions go with the first."""
    functions, serializers = tasks.functions, tasks.serializers
    for runs in split(tasks.runs):
        yield Tasks(runs, functions, serializers)
        functions, serializers = [], []
