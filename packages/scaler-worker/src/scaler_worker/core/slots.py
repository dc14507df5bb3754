"""The processors of one host and what they run.

A processor holds, beside the task it runs, about two milliseconds of work, and at least one task more, so that it never
waits for its agent. That costs nothing: what has not started can be taken back through the board, for another processor
that has nothing to do, for another agent, or because it was cancelled.

At most ``slots`` processors run tasks; each one whose task is blocked (it waits for tasks of its own) lends its slot to
tasks that are deeper than any blocked one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun, split
from scaler_protocol.effects import Log
from scaler_protocol.messages import FunctionDefinition, ObjectKey, Status, TaskColumn, Tasks
from scaler_protocol.monitor.records import NO_WORKER
from scaler_worker.board import HANDED, STARTED_CELL, Board, Handed
from scaler_worker.core.durations import Durations
from scaler_worker.core.effects import HandOver, Interrupt, Kill, Resume, StartProcessor, Suspend
from scaler_worker.core.nodes import Named, Nodes
from scaler_worker.core.objects import ObjectExchange, Row
from scaler_worker.core.processor import Ending, Processor
from scaler_worker.core.queue import TaskQueue

HAND_OVER_SECONDS = 0.002
"""How much work a processor is given at a time, and how little makes it get more."""

LEAST_HAND_OVER_SECONDS = 0.0002
"""Less than this is not worth spreading over processors."""

HAND_OVER_LIMIT = 4096
DEFINITIONS_LIMIT_BYTES = 256 * 1024
POLL_SECONDS = 0.002
LIMIT_CHECK_SECONDS = 0.05
KILL_AFTER_SECONDS = 2.0
RESTART_AFTER_SECONDS = 1.0
RETIRE_AFTER_SECONDS = 10.0

CANCELLED = "cancelled"
TIMED_OUT = "timed out"
MEMORY = "memory"


class Slots:
    def __init__(
        self,
        worker_names: tuple[str, ...],
        *,
        effects: list[Any],
        objects: ObjectExchange,
        task_timeout_seconds: float = 0.0,
        process_limit: int = 0,
    ) -> None:
        self.names = worker_names
        self.slots = len(worker_names)
        self.queue = TaskQueue()
        self.durations = Durations()
        self.processors: dict[int, Processor] = {}
        # Kept by ``_sort`` and ``_forget``, so that a turn costs the same with two processors and with two hundred.
        self._idle: dict[int, Processor] = {}
        self._busy: dict[int, Processor] = {}
        self._full: dict[int, Processor] = {}
        self.blocked: dict[int, Processor] = {}
        self._hungry: dict[int, Processor] = {}
        self._deepest_blocked = 0
        self.functions: dict[bytes, FunctionDefinition] = {}
        self.serializers: dict[bytes, FunctionDefinition] = {}
        self.finished: list[ResultRun] = []
        self.is_watched = False  # results are to say which worker made them, and when
        self.accepting = True
        self._effects = effects
        self._objects = objects
        self._task_timeout_seconds = task_timeout_seconds
        self._process_limit = process_limit or self.slots * 4 + 128
        self.nodes = Nodes()
        self.given_back: list[Named] = []
        self.rows: dict[tuple[bytes, int | None], list[Row]] = {}  # by session and, while watched, worker
        self._numbers = 0
        self.freed: list[ObjectKey] = []
        self._poll_at: float | None = None
        self._limits_at: float | None = None
        self._failures_to_start = 0
        self._start_after = 0.0
        self._lacks_room = False

    # ---- processors come and go ------------------------------------------------------------------------------

    def on_started(self, number: int, board: Board, pid: int) -> None:
        """The process exists; it is not ready yet."""
        processor = self.processors[number]
        processor.board = board
        processor.pid = pid

    def on_ready(self, number: int, now: float) -> None:
        processor = self.processors.get(number)
        if processor is not None:
            processor.ready = True
            processor.idle_since = now
            self._sort(processor)
            if len(self.processors) >= self.slots:
                self._lacks_room = False

    def on_not_started(self, number: int, text: str, now: float) -> None:
        """There is no process, and none is asked for before a while. Told once, until all slots have theirs."""
        processor = self.processors.pop(number, None)
        if processor is None:
            return
        self._forget(processor)
        self._fill_slot(processor.slot)
        self._start_after = now + RESTART_AFTER_SECONDS
        if not self._lacks_room:
            self._lacks_room = True
            again = f"it is tried again every {RESTART_AFTER_SECONDS:g} s"
            self._effects.append(Log("ERROR", f"{processor.name} cannot be started, {again}: {text}"))

    def on_died(self, number: int, certificate: dict[str, Any], now: float) -> None:
        """The process ended, for whatever reason. What it finished counts, the task under way fails, the others wait
        for another processor."""
        processor = self.processors.pop(number, None)
        if processor is None:
            return
        is_failure = not processor.ready
        if processor.board is not None:
            is_failure |= processor.busy and processor.board.position == 0
            self.harvest(processor, now)
            self._bury(processor, certificate, now)
        self._forget(processor)
        if is_failure and not processor.dying:
            self._delay_start(certificate, now)
        self._fill_slot(processor.slot)

    def _bury(self, processor: Processor, certificate: dict[str, Any], now: float) -> None:
        waiting: list[tuple[Handed, int]] = []
        for entry, sequence, cell in processor.open_sequences():
            if cell == STARTED_CELL:
                self._fail_dead(processor, entry, sequence, certificate, now)
            elif cell == HANDED:
                waiting.append((entry, sequence))
        self._put_back(reversed(waiting))
        processor.handed.clear()
        self.nodes.forget_processor(processor.number)

    def _fail_dead(
        self, processor: Processor, entry: Handed, sequence: int, certificate: dict[str, Any], now: float
    ) -> None:
        ending, place = processor.ending.get(sequence), self._place_of(processor)
        board = processor.board
        duration_us = int(1e6 * max(0.0, now - board.started)) if board and board.running == sequence else 0
        if ending is not None:
            self._add_ended_row(entry, sequence, ending.reason, duration_us, place)
            return
        named = {**certificate, "task": entry.run.function_name}
        self._add_row(entry, sequence, Status.PROCESSOR_DIED, json.dumps(named).encode(), duration_us, place)

    def _delay_start(self, certificate: dict[str, Any], now: float) -> None:
        """Processes that die before they look at a task would be started for ever in a tight loop."""
        self._failures_to_start += 1
        if self._failures_to_start >= 3:
            self._start_after = now + RESTART_AFTER_SECONDS
            self._effects.append(Log("ERROR", f"a processor ended before it ran anything: {json.dumps(certificate)}"))

    def _fill_slot(self, slot: int | None) -> None:
        """A spare processor becomes the worker of a slot that lost its own."""
        spare = next((each for each in self.processors.values() if each.slot is None), None)
        if slot is not None and spare is not None:
            spare.slot = slot
            spare.name = self.names[slot]

    def start_missing(self, now: float) -> None:
        """As many processes as slots; more only while tasks are blocked: as many as may use lent slots and find none
        idle, and one that is ready for the next."""
        if not self.accepting or now < self._start_after:
            return
        self._start_after = 0.0
        while len(self.processors) < self.slots:
            self._start()
        missing = self.slots + len(self.blocked) - len(self.processors)
        if missing > 0:
            self._start_spares(min(missing, self._eligible_count()))
        if self.blocked and len(self.processors) == len(self._busy) < self._process_limit:
            self._start()  # ahead of the next task that blocks

    def _start_spares(self, missing: int) -> None:
        while missing > 0 and len(self.processors) < self._process_limit:
            self._start()
            missing -= 1
        if missing > 0 and len(self.blocked) == len(self.processors):
            self._fail_for_process_limit()

    def _start(self) -> None:
        taken = [each.slot for each in self.processors.values()]
        slot = next((index for index in range(self.slots) if index not in taken), None)
        name = self.names[slot] if slot is not None else f"spare-{self._numbers}"
        processor = Processor(self._numbers, slot, name)
        self.processors[processor.number] = processor
        self._numbers += 1
        self._effects.append(StartProcessor(processor.number, name))

    def _fail_for_process_limit(self) -> None:
        """Every process is blocked and no more may be started: nothing would ever go on."""
        run = self.queue.take(1)
        text = (
            f"Nested tasks block all {len(self.processors)} processes of this host, which is the limit "
            f"({self._process_limit}): nest less deeply or use more hosts."
        )
        self._fail_run(run, Status.NO_WORKER, text.encode())

    def _eligible_count(self) -> int:
        head = self.queue.head(self._depth_needed())
        return self.queue.count if head is not None else 0

    # ---- what may run ----------------------------------------------------------------------------------------

    def _sort(self, processor: Processor) -> None:
        """Something about this processor changed: count it where it belongs."""
        number, held = processor.number, processor.unfinished()
        is_available = processor.ready and not processor.dying and processor.blocked_sequence is None
        if held:
            self._busy[number] = processor
            self._idle.pop(number, None)
        else:
            self._busy.pop(number, None)
            _put(self._idle, number, processor, is_available)
        if held > 1:
            self._full[number] = processor
        elif self._full:
            self._full.pop(number, None)
        if self.blocked or processor.blocked_sequence is not None:
            _put(self.blocked, number, processor, processor.blocked)
            self._deepest_blocked = max([each.blocked_depth for each in self.blocked.values()], default=0)
        if held and is_available:
            self._hungry[number] = processor  # until a look shows that it has enough
        else:
            self._hungry.pop(number, None)

    def _forget(self, processor: Processor) -> None:
        for group in (self._busy, self._full, self.blocked, self._idle, self._hungry):
            group.pop(processor.number, None)
        self._deepest_blocked = max([each.blocked_depth for each in self.blocked.values()], default=0)

    def _settle(self, processor: Processor) -> None:
        """Tasks that it held have ended or were taken back."""
        processor.forget_finished()
        self._sort(processor)

    def _capacity(self) -> int:
        return self.slots + len(self.blocked)

    def deepest_blocked(self) -> int:
        return self._deepest_blocked

    def lent(self) -> tuple[int, int]:
        """How many slots are lent, and the depth that tasks in them must exceed."""
        return len(self.blocked), self._deepest_blocked

    def _depth_needed(self, more: int = 1) -> int | None:
        """The depth that a task must exceed to be started when ``more`` processors become busy."""
        return None if len(self._busy) + more <= self.slots else self.deepest_blocked()

    # ---- handing over ----------------------------------------------------------------------------------------

    def hand_out(self, now: float) -> None:
        """Give every processor what it needs, as long as something waits."""
        if self.queue.count and self._idle:
            self._feed_idle()
        if self._busy and (self.queue.count or self.nodes.waiting):
            self._feed_busy()
        if self._full:
            if self._idle and not self.queue.count:
                self._steal(now)
            self._plan_poll(now)

    def _feed_idle(self) -> None:
        depth = self._depth_needed()
        if self.queue.head(depth) is None or len(self._busy) >= self.slots + len(self.blocked):
            return
        idle = sorted(self._idle)  # the lowest number first: the others stay out of the way of whoever shares the host
        for position, number in enumerate(idle):
            self._hand_over(self._idle[number], depth, len(idle) - position)
            if not self.queue.count or len(self._busy) >= self.slots + len(self.blocked):
                return
            depth = self._depth_needed()
            if self.queue.head(depth) is None:
                return

    def _feed_busy(self) -> None:
        if len(self._busy) > self._capacity():
            return
        depth = self._depth_needed(0)
        if self.queue.head(depth) is None:
            return
        for processor in list(self._hungry.values()):
            if not self._is_short(processor):
                del self._hungry[processor.number]
        needy = list(self._hungry.values())
        for position, processor in enumerate(needy):
            self._hand_over(processor, depth, len(needy) - position)

    def _is_short(self, processor: Processor) -> bool:
        """It would soon have nothing behind the task it runs."""
        assert processor.board is not None
        return processor.unfinished() < 2 or self._work_of(processor) < HAND_OVER_SECONDS

    def _work_of(self, processor: Processor) -> float:
        """Estimated seconds of all it holds, as of the last harvest."""
        estimate = self.durations.estimate
        return sum(entry.unfinished * (estimate(entry.run.function) or 0.0) for entry in processor.handed)

    def _hand_over(self, processor: Processor, depth: int | None, sharers: int) -> None:
        """About two milliseconds of tasks, no more than a fair share of what waits."""
        assert processor.board is not None
        runs: list[TaskRun] = []
        seconds, count = 0.0, processor.board.room(processor.next_sequence)
        budget = HAND_OVER_SECONDS
        share = -(-self.queue.count // sharers)
        while seconds < budget and count > 0 and self.queue.count and (head := self.queue.head(depth)) is not None:
            estimate = self.durations.estimate(head.function)
            run = self.queue.take(min(count, self._batch(head, estimate, share, budget - seconds)))
            runs.append(run)
            count -= run.count
            share = max(1, share - run.count)
            seconds += budget if estimate is None else run.count * estimate
        if self.nodes:
            runs += self.nodes.fragments(processor.number, runs, budget - seconds, count, self.durations.estimate)
        if runs:
            self._give(processor, runs)

    def _batch(self, head: TaskRun, estimate: float | None, share: int, budget: float) -> int:
        if estimate is None:
            return 1
        if head.options.graph:  # what needs its result can follow it only on the same processor
            share = HAND_OVER_LIMIT
        worthwhile = int(LEAST_HAND_OVER_SECONDS / estimate)
        return max(1, min(int(budget / estimate), max(share, worthwhile), HAND_OVER_LIMIT))

    def _give(self, processor: Processor, runs: list[TaskRun]) -> None:
        assert processor.board is not None
        if not processor.handed:
            processor.polled_position = -1
        for run in runs:
            processor.board.hand_over(processor.next_sequence, run.count)
            processor.handed.append(Handed(run, processor.next_sequence))
            processor.next_sequence += run.count
            if self._limits_at is None and self._has_limits(run):
                self._limits_at = 0.0
        self._sort(processor)
        if len(runs) == 1 and not self.nodes and _is_plain(runs[0]) and runs[0].function in processor.functions:
            self._effects.append(HandOver(processor.number, Tasks(runs)))
            return
        functions = [self.functions[digest] for digest in self._news(processor, (run.function for run in runs))]
        named = (run.serializer for run in runs if run.serializer)
        serializers = [self.serializers[digest] for digest in self._news(processor, named)]
        values, large = self.nodes.values(runs) if self.nodes else ([], [])
        objects = self._new_objects(processor, runs, functions + serializers, large)
        first, *others = _messages(runs, functions, serializers)
        hand_over = HandOver(processor.number, first, objects)
        if self.nodes:
            hand_over.values, hand_over.watermark = values, processor.board.harvested
        self._effects.append(hand_over)
        self._effects.extend(HandOver(processor.number, body) for body in others)

    def _news(self, processor: Processor, digests: Iterable[bytes]) -> list[bytes]:
        """Those that the processor has not seen; now it has."""
        news = [digest for digest in dict.fromkeys(digests) if digest not in processor.functions]
        processor.functions.update(news)
        return news

    def _new_objects(
        self,
        processor: Processor,
        runs: list[TaskRun],
        definitions: list[FunctionDefinition],
        values: list[ObjectKey],
    ) -> list[ObjectKey]:
        keys = [ObjectKey(each.digest, 0) for each in definitions if not each.payload]
        keys.extend(values)
        for run in runs:
            if run.has_references:
                keys.extend(run.uploads())
        news = [key for key in dict.fromkeys(keys) if key not in processor.objects]
        processor.objects.update(news)
        return news

    # ---- taking back -----------------------------------------------------------------------------------------

    def _steal(self, now: float) -> None:
        """Processors have nothing and nothing waits: take back half of what the fullest one has not started."""
        if len(self._busy) >= self._capacity():
            return
        victim = max(self._full.values(), key=lambda each: (self._work_of(each), each.unfinished()))
        if not self._is_worth_stealing(victim, now):
            return
        self.take_back(victim, victim.unfinished() // 2)
        if self.queue.count:
            self._feed_idle()

    def _is_worth_stealing(self, victim: Processor, now: float) -> bool:
        assert victim.board is not None
        if self._work_of(victim) >= 2 * LEAST_HAND_OVER_SECONDS:
            return True
        return victim.board.running is not None and now - victim.board.started > LEAST_HAND_OVER_SECONDS

    def take_back(self, processor: Processor, limit: int) -> int:
        """Queue again up to ``limit`` tasks that the processor has not started, newest first. How many it were."""
        taken = self._reclaim(processor, limit)
        self._put_back(taken)
        return len(taken)

    def _reclaim(self, processor: Processor, limit: int) -> list[tuple[Handed, int]]:
        assert processor.board is not None
        taken: list[tuple[Handed, int]] = []
        for entry in reversed(processor.handed):
            if len(taken) >= limit:
                break
            start = max(entry.first_sequence, processor.board.harvested)
            sequences = processor.board.withdraw_newest(start, entry.end_sequence, limit - len(taken))
            entry.unfinished -= len(sequences)
            taken.extend((entry, sequence) for sequence in sequences)
        self._settle(processor)
        return taken

    def _put_back(self, newest_first: Iterable[tuple[Handed, int]]) -> None:
        """To the front of the queue, in their order."""
        for run in _joined(newest_first):
            for ready in self._nodes_put_back(run) if run.options.graph else (run,):
                self.queue.push_front(ready)

    def _nodes_put_back(self, run: TaskRun) -> list[TaskRun]:
        ready, back = self.nodes.put_back(run)
        self.given_back.extend(back)
        return ready[::-1]

    def withdraw(self, count: int) -> list[TaskColumn]:
        """Up to ``count`` tasks that never started and will not start here."""
        runs = self.queue.withdraw(count)
        count -= sum(run.count for run in runs)
        for processor in sorted(self.processors.values(), key=self._work_of, reverse=True):
            if count <= 0:
                break
            if processor.board is not None:
                taken = _joined(self._reclaim(processor, count))
                count -= sum(run.count for run in taken)
                runs.extend(taken)
        return columns_of(runs, self._leave(runs))

    def _leave(self, runs: list[TaskRun]) -> list[Named]:
        """Nodes that leave this host: what waited here for them does, too."""
        back: list[Named] = []
        for run in runs:
            if run.options.graph:
                back.extend(self.nodes.gone(run.session, range(run.first_task, run.first_task + run.count)))
        return back

    def withdraw_everything(self) -> list[TaskColumn]:
        return [*self.withdraw(1 << 62), *columns_of((), self.nodes.take_waiting())]

    def cancel(self, column: TaskColumn, now: float) -> None:
        """Each task ends as cancelled unless it ends otherwise first."""
        if column.session in self.nodes:
            column = self._cancel_nodes(column)
            if not column.tasks:
                return
        attempts = column.attempts or (0,) * len(column.tasks)
        wanted = dict.fromkeys(zip(column.tasks, attempts, strict=False))
        removed = self.queue.remove(column.session, wanted)
        removed += self._objects.remove_waiting(column.session, wanted)
        for task, attempt in removed:
            self._add_plain_row(column.session, task, attempt, Status.CANCELLED)
        if column.session in self.nodes:
            self.given_back.extend(self.nodes.gone(column.session, [task for task, _ in removed]))
        for processor in list(self._busy.values()):
            if processor.busy:
                self._cancel_handed(processor, column.session, wanted, now)

    def _cancel_nodes(self, column: TaskColumn) -> TaskColumn:
        """Ends those that wait for values, frees values; the others are left."""
        attempts = column.attempts or (0,) * len(column.tasks)
        waited, elsewhere, large, back = self.nodes.cancel(column.session, column.tasks, attempts)
        for task, attempt in waited:
            self._add_plain_row(column.session, task, attempt, Status.CANCELLED)
        self.freed.extend(large)
        self.given_back.extend(back)
        return TaskColumn(column.session, tuple(task for task, _ in elsewhere), tuple(each for _, each in elsewhere))

    def _cancel_handed(
        self, processor: Processor, session: bytes, tasks: Iterable[tuple[int, int]], now: float
    ) -> None:
        assert processor.board is not None
        for task, attempt in tasks:
            found = processor.find(session, task, attempt)
            if found is None:
                continue
            entry, sequence = found
            if processor.board.withdraw(sequence):
                entry.unfinished -= 1
                self._add_ended_row(entry, sequence, CANCELLED, 0)
            elif processor.board.cell(sequence) == STARTED_CELL:
                self.end(processor, sequence, CANCELLED, now)
        self._settle(processor)

    # ---- ending what runs ------------------------------------------------------------------------------------

    def end(self, processor: Processor, sequence: int, reason: str, now: float) -> None:
        """Interrupt a running task; kill its process when that does not help."""
        if sequence not in processor.ending:
            processor.ending[sequence] = Ending(reason, now + KILL_AFTER_SECONDS)
            self._interrupt(processor, sequence)
            self._limits_at = now + LIMIT_CHECK_SECONDS

    def _interrupt(self, processor: Processor, sequence: int) -> None:
        assert processor.board is not None
        processor.board.interrupt(sequence)
        processor.ending[sequence].reached = processor.board.running == sequence
        if processor.suspended:
            processor.suspended = False
            self._effects.append(Resume(processor.number))
        self._effects.append(Interrupt(processor.number))

    def end_by_number(self, number: int, reason: str, now: float) -> None:
        """End whatever this processor runs."""
        processor = self.processors.get(number)
        if processor is not None and processor.board is not None and processor.board.running is not None:
            self.end(processor, processor.board.running, reason, now)

    def _enforce(self, now: float) -> None:
        """Time limits, and interrupts that were not heard."""
        self._limits_at = None
        for processor in self.processors.values():
            if processor.busy and processor.board is not None:
                self._enforce_endings(processor, now)
                self._enforce_timeout(processor, now)
                if processor.ending or any(self._has_limits(entry.run) for entry in processor.handed):
                    self._limits_at = now + LIMIT_CHECK_SECONDS

    def _enforce_endings(self, processor: Processor, now: float) -> None:
        for sequence, ending in list(processor.ending.items()):
            if now >= ending.kill_at and not processor.dying:
                processor.dying = True
                self._sort(processor)
                self._effects.append(Kill(processor.number))
            elif not ending.reached:
                self._interrupt(processor, sequence)

    def _enforce_timeout(self, processor: Processor, now: float) -> None:
        assert processor.board is not None
        sequence = processor.board.running
        entry = processor.entry_of(sequence) if sequence is not None else None
        if entry is None or sequence is None:
            return
        limit = entry.run.options.timeout_seconds or self._task_timeout_seconds
        if limit and now - processor.board.started >= limit:
            self.end(processor, sequence, TIMED_OUT, now)

    def _has_limits(self, run: TaskRun) -> bool:
        return bool(run.options.timeout_seconds or self._task_timeout_seconds)

    # ---- harvest ---------------------------------------------------------------------------------------------

    def _place_of(self, processor: Processor) -> int | None:
        if not self.is_watched:
            return None
        return NO_WORKER if processor.slot is None else min(processor.slot, NO_WORKER)

    def harvest(self, processor: Processor, now: float) -> None:
        """Take what it finished."""
        if processor.board is None or not processor.board.has_results():
            return
        self._failures_to_start = 0
        harvest = processor.board.harvest(processor.handed, self._place_of(processor))
        for entry, count, seconds in harvest.totals:
            self.durations.add(entry.run.function, count, seconds)
        self.finished.extend(harvest.runs)
        rows = _large_rows(harvest.runs) if harvest.large else {}
        for entry, sequence in harvest.large:
            key = ObjectKey(entry.session, entry.first_task + sequence - entry.first_sequence)
            row = None if entry.is_node else rows.get(key)
            self._objects.add_result(processor.number, sequence, key, row)
            if entry.is_node and self._objects.is_stored(key):
                processor.objects.add(key)  # it may keep it until it is told that nobody needs it
        for entry, sequence, duration in harvest.interrupted:
            ending = processor.ending.get(sequence)
            if ending is None and entry.is_node:
                self._give_back(entry, sequence)
            else:
                reason = ending.reason if ending else CANCELLED
                self._add_ended_row(entry, sequence, reason, duration, self._place_of(processor))
        if harvest.kept:
            self._keep(harvest.kept)
        self._after_harvest(processor, now)

    def _give_back(self, entry: Handed, sequence: int) -> None:
        """A node that a processor could not run: an input of it has failed, or was freed meanwhile."""
        task = entry.first_task + sequence - entry.first_sequence
        self.given_back.append((entry.session, task, entry.attempt))
        self.given_back.extend(self.nodes.gone(entry.session, (task,)))

    def _keep(self, kept: list[tuple[TaskRun, int, int, bytes]]) -> None:
        """Values of nodes stay here; what waited for them may run."""
        ready, back = self.nodes.harvested(kept)
        self.given_back.extend(back)
        for run in ready:
            self.queue.push(run)

    def add_nodes(self, run: TaskRun, lacks_objects: bool) -> list[ObjectKey]:
        """Nodes of a graph came; what must be asked for."""
        ready, fetch, freed = self.nodes.add(run, lacks_objects)
        self.freed.extend(freed)
        for each in ready:
            self.queue.push(each)
        self._objects.give_up_values(run.session, run.first_task, run.first_task + run.count)
        return self._objects.fetch(fetch) if fetch else []

    def objects_here(self, run: TaskRun) -> None:
        """The last object that ``run`` waited for has come."""
        for ready in self.nodes.objects_here(run) if run.options.graph else (run,):
            self.queue.push(ready)

    def value_arrived(self, key: ObjectKey) -> bool:
        """False: nobody waits for it."""
        ready = self.nodes.arrived(key)
        for run in ready or ():
            self.queue.push(run)
        return ready is not None

    def forget_values(self, keys: list[ObjectKey]) -> None:
        """Large values of nodes are lost."""
        for key in keys:
            if key.owner in self.nodes:
                _, _, _, back = self.nodes.cancel(key.owner, (key.number,), (0,))
                self.given_back.extend(back)

    def value_missing(self, key: ObjectKey) -> None:
        self.given_back.extend(self.nodes.gone(key.owner, (key.number,)))

    def _after_harvest(self, processor: Processor, now: float) -> None:
        assert processor.board is not None
        harvested = processor.board.harvested
        if processor.ending:
            processor.ending = {each: ending for each, ending in processor.ending.items() if each >= harvested}
        if processor.blocked_sequence is not None and processor.blocked_sequence < harvested:
            processor.blocked_sequence = None
        for entry in processor.handed:
            if entry.run.options.stream_output:
                self._objects.catch_up(processor.number)  # what a task wrote, before it is forgotten
                break
        self._settle(processor)
        if not processor.handed:
            processor.idle_since = now

    def flush_rows(self) -> None:
        """Results made here join those of processors."""
        if not self.rows:
            return
        for (session, place), rows in self.rows.items():
            run = ResultRun(session, rows)
            if place is not None:
                run.set_place(place, bytes(4 * run.count))
            self.finished.append(run)
        self.rows.clear()

    def _add_ended_row(
        self, entry: Handed, sequence: int, reason: str, duration_us: int, place: int | None = None
    ) -> None:
        if reason == CANCELLED:
            self._add_row(entry, sequence, Status.CANCELLED, b"", duration_us, place)
        elif reason == MEMORY:
            text = f"{entry.run.function_name} used more than its {entry.run.options.memory_bytes} bytes of memory."
            self._add_row(entry, sequence, Status.MEMORY_EXCEEDED, text.encode(), duration_us, place)
        else:
            limit = entry.run.options.timeout_seconds or self._task_timeout_seconds
            text = f"{entry.run.function_name} ran for more than its {limit:g} seconds."
            self._add_row(entry, sequence, Status.TIMED_OUT, text.encode(), duration_us, place)

    def _add_row(
        self, entry: Handed, sequence: int, status: int, payload: bytes, duration_us: int, place: int | None
    ) -> None:
        task = entry.first_task + sequence - entry.first_sequence
        if entry.is_node:
            self.given_back.extend(self.nodes.gone(entry.session, (task,)))
        self._add_plain_row(entry.session, task, entry.attempt, status, payload, duration_us, place)

    def _add_plain_row(
        self,
        session: bytes,
        task: int,
        attempt: int,
        status: int,
        payload: bytes = b"",
        duration_us: int = 0,
        place: int | None = None,
    ) -> None:
        row = (task, attempt, int(status), payload, duration_us, duration_us, 0)
        self.rows.setdefault((session, place), []).append(row)

    def _fail_run(self, run: TaskRun, status: int, payload: bytes) -> None:
        for index in range(run.count):
            self._add_plain_row(run.session, run.first_task + index, run.attempt, status, payload)
        self.given_back.extend(self._leave([run]))

    def fail_runs(self, runs: Iterable[TaskRun], status: int, text: str) -> None:
        for run in runs:
            self._fail_run(run, status, text.encode())

    # ---- blocked tasks ---------------------------------------------------------------------------------------

    def block(self, number: int) -> bool:
        """The task that this processor runs waits for tasks of its own: its slot is lent. False: it runs none."""
        processor = self.processors.get(number)
        if processor is None or processor.board is None:
            return False
        sequence = processor.board.running
        entry = processor.entry_of(sequence) if sequence is not None else None
        if entry is None:
            return False
        if processor.blocked_sequence == sequence:
            return True
        processor.blocked_sequence = sequence
        processor.blocked_depth = entry.run.options.depth
        self.take_back(processor, processor.unfinished())  # counts it as blocked, too
        return True

    def unblock(self, number: int) -> None:
        processor = self.processors.get(number)
        if processor is not None:
            processor.blocked_sequence = None
            self._sort(processor)

    def suspend_blocked(self) -> None:
        """A blocked parent stands still while others use all slots."""
        full = len(self._busy) - len(self.blocked) >= self.slots
        for processor in self.processors.values():
            wanted = processor.blocked and full and not processor.ending
            if wanted != processor.suspended:
                processor.suspended = wanted
                self._effects.append(Suspend(processor.number) if wanted else Resume(processor.number))

    # ---- time ------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        first = self._poll_at
        if self._limits_at is not None and (first is None or self._limits_at < first):
            first = self._limits_at
        if len(self.processors) == self.slots and not self._start_after:
            return first
        times = [each.idle_since + RETIRE_AFTER_SECONDS for each in self._superfluous()]
        if self._start_after and self.accepting:
            times.append(self._start_after)
        if first is not None:
            times.append(first)
        return min(times, default=None)

    def on_deadline(self, now: float) -> None:
        if self._limits_at is not None and now >= self._limits_at:
            self._enforce(now)
        if self._poll_at is not None and now >= self._poll_at:
            self._poll_at = None
            for processor in list(self._busy.values()):
                self.harvest(processor, now)
        if len(self.processors) > self.slots:
            self._retire(now)

    def _plan_poll(self, now: float) -> None:
        """A processor tells of its results when it runs out of tasks, or when a task ends two milliseconds after the
        last news. So finished results can only hide behind a task that started since the last look."""
        if self._poll_at is not None:
            return
        for processor in self._full.values():
            assert processor.board is not None
            position = processor.board.position
            if position != processor.polled_position:
                processor.polled_position = position
                self._poll_at = now + POLL_SECONDS

    def _superfluous(self) -> list[Processor]:
        """Spare processors, but for the one that is ready for the next task while others block."""
        spares = [each for each in self._idle.values() if each.slot is None]
        return spares[1:] if self.blocked else spares

    def _retire(self, now: float) -> None:
        for processor in self._superfluous():
            if now >= processor.idle_since + RETIRE_AFTER_SECONDS:
                processor.dying = True
                self._sort(processor)
                self._effects.append(Kill(processor.number))

    # ---- reports ---------------------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        return self.queue.count + self.nodes.waiting + sum(each.unfinished() - 1 for each in self._busy.values())

    @property
    def is_idle(self) -> bool:
        return not self.queue.count and not self._busy and not self.nodes.waiting

    def holds(self) -> list[TaskColumn]:
        """Everything that is queued or running here."""
        pairs: dict[bytes, list[tuple[int, int]]] = {}
        for run in [*self.queue.runs(), *self._objects.waiting_runs()]:
            tasks = pairs.setdefault(run.session, [])
            tasks.extend((run.first_task + index, run.attempt) for index in range(run.count))
        for session, task, attempt in self.nodes.waiting_tasks():
            pairs.setdefault(session, []).append((task, attempt))
        for processor in self.processors.values():
            for entry, sequence, cell in processor.open_sequences() if processor.board is not None else ():
                if cell in (HANDED, STARTED_CELL):
                    task = entry.first_task + sequence - entry.first_sequence
                    pairs.setdefault(entry.session, []).append((task, entry.attempt))
        return _columns(pairs)

    def running_task(self, number: int) -> tuple[bytes, int] | None:
        """(session, task) under way."""
        processor = self.processors.get(number)
        if processor is None or processor.board is None or processor.board.running is None:
            return None
        entry = processor.entry_of(processor.board.running)
        return (entry.session, entry.first_task + processor.board.running - entry.first_sequence) if entry else None

    def task_of(self, number: int, sequence: int) -> tuple[bytes, int] | None:
        processor = self.processors.get(number)
        entry = processor.entry_of(sequence) if processor is not None else None
        return (entry.session, entry.first_task + sequence - entry.first_sequence) if entry else None

    def number_running(self, session: bytes, task: int, attempt: int) -> int | None:
        """The processor that runs this task."""
        for processor in self.processors.values():
            found = processor.find(session, task, attempt) if processor.busy else None
            if found is not None and processor.board is not None and processor.board.cell(found[1]) == STARTED_CELL:
                return processor.number
        return None

    def memory_limits(self) -> list[tuple[int, int, int]]:
        """(processor, process id, bytes) of running tasks whose memory is limited."""
        limits = []
        for processor in self.processors.values():
            sequence = processor.board.running if processor.busy and processor.board is not None else None
            entry = processor.entry_of(sequence) if sequence is not None else None
            if entry is not None and entry.run.options.memory_bytes:
                limits.append((processor.number, processor.pid, entry.run.options.memory_bytes))
        return limits

    def check(self) -> None:
        self.queue.check()
        self.nodes.check()
        slots = [each.slot for each in self.processors.values() if each.slot is not None]
        assert len(slots) == len(frozenset(slots)) and all(0 <= slot < self.slots for slot in slots)
        for processor in self.processors.values():
            assert all(0 < entry.unfinished <= entry.count for entry in processor.handed)
            assert not processor.handed or processor.board is not None
            self._check_groups(processor)

    def _check_groups(self, processor: Processor) -> None:
        number = processor.number
        assert (number in self._busy) == processor.busy == (processor.unfinished() > 0)
        assert (number in self._full) == (processor.unfinished() > 1)
        assert (number in self.blocked) == processor.blocked and (processor.busy or not processor.blocked)
        assert (number in self._idle) == (processor.available and not processor.busy)
        assert number not in self._hungry or (processor.available and processor.busy)


def _put(group: dict[int, Processor], number: int, processor: Processor, belongs: bool) -> None:
    if belongs:
        group[number] = processor
    elif group:
        group.pop(number, None)


def _is_plain(run: TaskRun) -> bool:
    """It needs its function and nothing else."""
    return not run.serializer and not run.has_references


def _large_rows(runs: list[ResultRun]) -> dict[ObjectKey, Row]:
    """What is said of large results."""
    return {
        ObjectKey(run.session, row[0]): (*row[:3], bytes(row[3]), *row[4:])
        for run in runs
        for row in run.rows()
        if row[2] == Status.SUCCESS_LARGE
    }


def _messages(
    runs: list[TaskRun], functions: list[FunctionDefinition], serializers: list[FunctionDefinition]
) -> Iterator[Tasks]:
    """Under the message limit: definitions ride with the first runs unless they are large together."""
    if sum(len(each.payload) for each in functions) > DEFINITIONS_LIMIT_BYTES:
        for function in functions:
            yield Tasks([], [function])
        functions = []
    for group in split(runs):
        yield Tasks(group, functions, serializers)
        functions, serializers = [], []


def columns_of(runs: Iterable[TaskRun], named: Iterable[Named] = ()) -> list[TaskColumn]:
    pairs: dict[bytes, list[tuple[int, int]]] = {}
    for session, task, attempt in named:
        pairs.setdefault(session, []).append((task, attempt))
    for run in runs:
        tasks = pairs.setdefault(run.session, [])
        tasks.extend((run.first_task + index, run.attempt) for index in range(run.count))
    return _columns(pairs)


def _columns(pairs: dict[bytes, list[tuple[int, int]]]) -> list[TaskColumn]:
    """From (task, attempt) pairs by session."""
    return [
        TaskColumn(session, tuple(task for task, _ in tasks), tuple(attempt for _, attempt in tasks))
        for session, tasks in pairs.items()
    ]


def _joined(newest_first: Iterable[tuple[Handed, int]]) -> list[TaskRun]:
    """Neighbours as one run; newest runs first."""
    runs: list[TaskRun] = []
    current: Handed | None = None
    start = end = 0
    for entry, sequence in newest_first:
        if entry is current and sequence == start - 1:
            start = sequence
            continue
        if current is not None:
            runs.append(current.run.slice(start - current.first_sequence, end - current.first_sequence))
        current, start, end = entry, sequence, sequence + 1
    if current is not None:
        runs.append(current.run.slice(start - current.first_sequence, end - current.first_sequence))
    return runs
