"""What agents say of tasks: results, and what they hold after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import ObjectKey, ObjectRelease, Status, TaskColumn
from scaler_scheduler.core import stated_cancels
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.endings import Endings
from scaler_scheduler.core.limits import CERTIFICATE_LIMIT_BYTES
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.states import DEATHS_LIMIT, Action, ResultOutcome

_STOPPED = (Status.TIMED_OUT, Status.MEMORY_EXCEEDED)


class Outcomes(Endings):
    """What agents say of tasks: results, and what they hold after a restart."""

    def _accept_of_nobody(self, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None:
        """Results for a client that is not there; it may come back after a restart of the scheduler."""
        if _is_fresh(agent, now):
            self._keep_results(agent, run, delivery, now)
        else:
            self._refuse_large(agent, run, range(run.count), now)

    def _accept_others(
        self,
        client: Client,
        agent: Agent,
        run: ResultRun,
        delivery: Delivery,
        outcome: ResultOutcome,
        now: float,
    ) -> None:
        """Rows that do not simply end their task; ``outcome`` is the table's answer."""
        _, decisions, unknown = outcome
        if unknown and _is_fresh(agent, now):
            self._keep_results(agent, run.select(unknown), delivery, now)
        elif unknown:
            self._refuse_large(agent, run, unknown, now)
        for index, task, action in decisions:
            _DECISIONS[action](self, client, agent, run, index, task, now)

    def _stop_children_of_stopped(self, run: ResultRun, now: float) -> None:
        """A task that was stopped at a limit takes with it what that attempt submitted, as one that was cancelled."""
        statuses = bytes(run.status_column)
        if not any(status in statuses for status in _STOPPED):
            return
        for index, status in enumerate(statuses):
            for child in self._lineage.of_task(run.session, run.task(index)) if status in _STOPPED else ():
                if child.parent is not None and child.parent.attempt == run.attempt(index):
                    self._stop_nested(child, now)

    def _keep_results(self, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None:
        delivery.hold()
        self.unclaimed.add_results(agent, run, delivery, now + HOLD_SECONDS)
        self._arm(now)

    def _on_large(self, client: Client, agent: Agent, run: ResultRun, index: int, task: int, now: float) -> None:
        client.large[task] = now
        if task in client.fetching:
            self._fetch(agent, ObjectKey(client.session, task), client.session, True, now)

    def _fetch(self, holder: Agent, key: ObjectKey, reader: bytes, relayed: bool, now: float) -> None:
        """Have a value sent by its holder to whoever asked for it, when it is that reader's turn."""
        if self.relays.join(key, holder.session, reader, relayed):
            self._send(holder, self.relays.request(key), now)

    def _refuse_large(self, agent: Agent, run: ResultRun, indices: Iterable[int], now: float) -> None:
        """Nobody wants these: what is large among them need not be kept."""
        statuses = run.status_column
        keys = [ObjectKey(run.session, run.task(index)) for index in indices if statuses[index] == Status.SUCCESS_LARGE]
        if keys:
            self._send(agent, ObjectRelease(tuple(keys)), now)

    def _on_refuse(self, client: Client, agent: Agent, run: ResultRun, index: int, task: int, now: float) -> None:
        self._refuse_large(agent, run, [index], now)

    def _on_discard(self, client: Client, agent: Agent, run: ResultRun, index: int, task: int, now: float) -> None:
        client.table.finish(task, Status.CANCELLED)
        client.row(task, Status.CANCELLED, attempt=run.attempt(index))
        self._send(agent, ObjectRelease((ObjectKey(client.session, task),)), now)

    def _on_retry(self, client: Client, agent: Agent, run: ResultRun, index: int, task: int, now: float) -> None:
        record = client.table.record(task)
        failures = client.failures[task] = client.failures.get(task, 0) + 1
        self._stop_children(client.session, task, now)
        if failures <= record.retries:
            self._requeue(client, task)
            return
        client.forget(task)
        client.table.finish(task, run.status(index))
        client.row(task, run.status(index), bytes(run.payload(index)), run.attempt(index))

    def _on_died(self, client: Client, agent: Agent, run: ResultRun, index: int, task: int, now: float) -> None:
        record = client.table.record(task)
        certificates = client.certificates.setdefault(task, [])
        payload = bytes(run.payload(index))
        certificates.append(payload if 0 < len(payload) <= CERTIFICATE_LIMIT_BYTES else b"{}")
        self._stop_children(client.session, task, now)
        if record.rerun and client.table.died(task) < DEATHS_LIMIT:
            self._requeue(client, task)
            return
        payload = b"[" + b",".join(certificates) + b"]"
        client.forget(task)
        client.table.finish(task, Status.PROCESSOR_DIED)
        client.row(task, Status.PROCESSOR_DIED, payload, run.attempt(index))

    def _claim(self, agent: Agent, column: TaskColumn, now: float) -> None:
        client = self.clients.get(column.session)
        attempts = column.attempts or (1,) * len(column.tasks)
        if client is None:
            self.unclaimed.add_holds(agent, column.session, column.tasks, attempts, now + HOLD_SECONDS)
            self._arm(now)
            return
        if client.stated_cancels:
            column = stated_cancels.without_cancelled(client, agent, column, attempts)
            attempts = column.attempts
        stale, unknown = client.table.claim(column.tasks, attempts, agent.load)
        self._cancel_at(agent, column.session, column.tasks, attempts, stale)
        if unknown:
            tasks, attempts = _pick(column.tasks, unknown), _pick(attempts, unknown)
            self.unclaimed.add_holds(agent, column.session, tasks, attempts, now + HOLD_SECONDS)
            self._arm(now)

    def _match_unclaimed(self, client: Client, now: float) -> None:
        holds, results = self.unclaimed.take(client.session)
        for agent, tasks, attempts in holds:
            self._claim(agent, TaskColumn(client.session, tasks, attempts), now)
            self.allocator.offer(agent)
        for agent, run, delivery in results:
            self._accept(agent, run, delivery, now)
            delivery.let_go()


def held_values(run: ResultRun) -> list[int]:
    """The rows by which an agent says that it holds the value of a node, since no result is empty, or what is large."""
    rows = zip(range(run.count), run.status_column, strict=True)
    return [
        index
        for index, status in rows
        if status == Status.SUCCESS_LARGE or (status == Status.SUCCESS and not len(run.payload(index)))
    ]


def _is_fresh(agent: Agent, now: float) -> bool:
    """It may speak of what was before a restart of the scheduler."""
    return now < agent.attached_at + HOLD_SECONDS


def _pick(values: Sequence[int], indices: list[int]) -> tuple[int, ...]:
    return tuple(values[index] for index in indices)


_Decision = Callable[[Outcomes, Client, Agent, ResultRun, int, int, float], None]

_DECISIONS: dict[Action, _Decision] = {
    Action.KEEP_LARGE: Outcomes._on_large,
    Action.DISCARD: Outcomes._on_discard,
    Action.DECIDE_RETRY: Outcomes._on_retry,
    Action.DECIDE_DEATH: Outcomes._on_died,
    Action.REFUSE: Outcomes._on_refuse,
}
