"""The fake scheduler, also for graphs: it runs tasks in the order of their ids, which is that of their dependencies."""

from __future__ import annotations

import pickle
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import Cancel, Envelope, ObjectChunk, ObjectCredit, ObjectKey, Results, Status, Tasks
from tests.support.waiting import wait_until
from tests.unit.client.fake_scheduler import FakeScheduler


class GraphScheduler(FakeScheduler):
    """``executed`` counts what ran; ``lasts``: the last id of each graph by its number."""

    def __init__(self, address: str = "tcp://127.0.0.1:0", epoch: int = 1) -> None:
        self.values: dict[ObjectKey, bytes] = {}
        self.sizes: dict[ObjectKey, int] = {}
        self.failed: set[ObjectKey] = set()
        self.cancelled: set[int] = set()
        self.executed = 0
        self.deaths = 0
        super().__init__(address, epoch)

    def _take(self, peer: bytes, envelope: Envelope) -> None:
        body = envelope.body
        new = not envelope.sequence or peer not in self._links or envelope.sequence > self._links[peer].received
        super()._take(peer, envelope)
        if not new:
            return
        if isinstance(body, ObjectChunk):
            self.sizes[body.key] = body.size
            self.values[body.key] = self.values.get(body.key, b"") + bytes(body.data)
            self._say(peer, ObjectCredit(body.key, body.offset + len(body.data)))
        elif isinstance(body, Cancel):
            for column in body.columns:
                self.cancelled.update(column.tasks)

    def _run_tasks(self, peer: bytes, run: TaskRun) -> None:
        uploads = run.uploads() if run.has_references else []
        if self.held or any(len(self.values.get(key, b"")) < self.sizes.get(key, 0) for key in uploads):
            self.held.append((peer, run))  # its objects are still on their way; all later ones wait, too
            return
        rows = []
        for index in range(run.count):
            task = run.first_task + index
            key = ObjectKey(run.session, task)
            status, payload = self._run_node(run, index)
            if status == Status.SUCCESS:
                self.values[key] = payload
            else:
                self.failed.add(key)
            if status != Status.SUCCESS or not run.options.intermediate:
                rows.append((task, 1, status, payload, 7, 3, 11))
        if rows:
            self._say(peer, Results([ResultRun(run.session, rows)]))

    def _run_node(self, run: TaskRun, index: int) -> tuple[int, bytes]:
        task = run.first_task + index
        if task in self.cancelled:
            return int(Status.CANCELLED), b""
        values: list[Any] = []
        for slot in run.slot_bytes(index):
            if isinstance(slot, ObjectKey):
                assert slot.number < task or slot.number >= 2**63
                if slot in self.failed:
                    return int(Status.CANCELLED), b""
                slot = self.values[slot]
            values.append(pickle.loads(slot))
        self.executed += 1
        return self._call(run, values)

    def _call(self, run: TaskRun, values: list[Any]) -> tuple[int, bytes]:
        count = len(values) - len(run.keywords)
        keywords = dict(zip(run.keywords, values[count:], strict=True))
        try:
            result = self._functions[run.function](*values[:count], **keywords)
            return int(Status.SUCCESS), pickle.dumps(result)
        except Exception as error:
            report = (pickle.dumps(error), type(error).__name__, str(error), "Traceback of the worker")
            return int(Status.EXCEPTION), pickle.dumps(report)

    # ---- what tests ask ------------------------------------------------------------------------------------------

    def runs(self) -> list[TaskRun]:
        return [run for body in list(self.seen) if isinstance(body, Tasks) for run in body.runs]

    def wait_for_tasks(self, count: int) -> None:
        wait_until(lambda: sum(run.count for run in self.runs()) >= count)
