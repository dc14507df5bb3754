"""How tasks, clients and agents end, and what else ends or starts again with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    RefusalReason,
    Refused,
    Status,
    TaskName,
)
from scaler_scheduler.core import coordination, faults
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.graph_news import GraphNews
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.states import LOSSES_LIMIT, TaskState
from scaler_scheduler.core.watching import Watching

_RELEASED_PER_MESSAGE = 4096
LOST_TEXT = "The worker that had this task was lost."
MISSING_TEXT = "The result of another task that this one needs is not there."


class Endings(Watching):
    """How tasks, clients and agents end, and what else ends or starts again with them."""

    def _requeue(self, client: Client, task: int) -> None:
        record = client.table.requeue(task)
        if record is not None:
            record.queue.push(client, client.table, record.priority, task, task + 1, True)

    def _push(self, client: Client, ranges: list, front: bool) -> None:
        for record, first, stop in reversed(ranges) if front else ranges:
            record.queue.push(client, client.table, record.priority, first, stop, front)

    def _cancel(self, client: Client, tasks: Sequence[int] | None, now: float) -> None:
        """Cancel some or (None) all tasks of a client, and the children of those that run."""
        ended, told, freed = client.table.cancel(tasks)
        for index, (numbers, attempts) in told.items():
            self._cancel_at(self.agent_by_index[index], client.session, numbers, attempts, range(len(numbers)))
            if self._lineage:
                for task in numbers:
                    self._stop_children(client.session, task, now)
        for index, numbers in freed.items():
            keys = tuple(ObjectKey(client.session, task) for task in numbers)
            self._send(self.agent_by_index[index], ObjectRelease(keys), now)
            for task in numbers:
                client.forget(task)
        self._tell_cancelled(client, ended)

    def _cancel_at(
        self, agent: Agent, session: bytes, tasks: Sequence[int], attempts: Sequence[int], indices: Iterable[int]
    ) -> None:
        chosen = list(indices)
        if chosen:
            agent.cancel(session, [tasks[index] for index in chosen], [attempts[index] for index in chosen])

    def _spread_news(self, now: float) -> None:
        """Carry out what became of nodes of graphs: some may be queued, some end, some values are not needed."""
        for client in list(self._graph_clients.values()):
            try:
                self._spread_news_of(client, now)
            except Exception as error:
                self._on_receiver_fault(client, error, now)

    def _spread_news_of(self, client: Client, now: float) -> None:
        client.table.prefers_holders = len(self.agents) > 1
        news = client.table.take_news()
        if news is not None:
            self._spread(client, news, now)
        elif not client.table.graphs:
            self._graph_clients.pop(client.session, None)

    def _spread(self, client: Client, news: GraphNews, now: float) -> None:
        self._push(client, news.ready, False)
        for index, (tasks, attempts) in news.cancels.items():
            agent = self.agent_by_index.get(index)
            if agent is None:
                continue
            agent.cancel(client.session, tasks, attempts)
            for task in tasks if self.relays else ():
                self.relays.end(ObjectKey(client.session, task), agent.session)
        for task in news.cascaded if self._lineage else ():
            self._stop_children(client.session, task, now)
        for task in news.delivered:
            client.forget(task)
        for task, status in news.died:
            self._tell_failed(client, task, status)
        self._tell_cancelled(client, news.ended)
        for index, tasks in news.wishes.items():
            if index in self.agent_by_index:
                agent = self.agent_by_index[index]
                agent.load.deferred.extend((client.table, task) for task in tasks)
                self.allocator.offer(agent)

    def _tell_failed(self, client: Client, task: int, status: int) -> None:
        text = (LOST_TEXT if status == Status.WORKER_DIED else MISSING_TEXT).encode()
        client.forget(task)
        client.row(task, status, text)
        if self.events.is_on:
            self.events.failed(client.table.number, task, status, text)
        self._touched[client.session] = client

    def _tell_cancelled(self, client: Client, tasks: list[int]) -> None:
        for task in tasks:
            client.forget(task)
            client.row(task, Status.CANCELLED)
        if tasks:
            self._touched[client.session] = client

    def _stop_children(self, session: bytes, task: int, now: float) -> None:
        """The current attempt of a task was cancelled or died: the tasks it submitted are cancelled."""
        for child in self._lineage.of_task(session, task):
            self._stop_nested(child, now)

    def _stop_stale_children(self, client: Client, now: float) -> None:
        for child in self._lineage.of_client(client.session):
            if child.parent is not None and self._is_stopped(child.parent):
                self._stop_nested(child, now)

    def _stop_nested(self, client: Client, now: float) -> None:
        """Its tasks are cancelled, and theirs. One client after another: how deep they are nested is theirs to say."""
        if client in self._stopping:
            return
        self._stopping.append(client)
        if len(self._stopping) > 1:
            return
        try:
            for each in self._stopping:  # which grows meanwhile
                self._stop_one(each, now)
        finally:
            self._stopping.clear()

    def _stop_one(self, client: Client, now: float) -> None:
        """The session goes on: its processor has other tasks to come."""
        if not client.connected:
            self._end_client(client, now)
            return
        self._cancel(client, None, now)
        client.waiting.clear()
        client.held.clear()
        for child in self._lineage.of_client(client.session):
            self._stop_nested(child, now)

    def _is_stopped(self, parent: TaskName) -> bool:
        """This execution of a task is being cancelled, or a later one has taken its place."""
        client = self.clients.get(parent.session)
        known = client.table.describe(parent.task) if client is not None else None
        return known is not None and (known[0] == TaskState.CANCELLING or known[1] > parent.attempt)

    def _stated_by(self, key: ObjectKey, now: float) -> float | None:
        """When the owner of an object will have spoken of it if it exists; None: by now."""
        owner = self.clients.get(key.owner)
        if owner is not None:
            return owner.states_until if now < owner.states_until else None
        is_known = not key.number and (key.owner in self.functions or key.owner in self.serializers)
        return now + HOLD_SECONDS if is_known else None

    def _release_object(self, client: Client, key: ObjectKey, now: float) -> None:
        client.objects.pop(key, None)
        stored, replies = self.objects.release(client.session, key)
        if stored is None:
            self._send_all(replies, now)
            return
        for session in stored.holders:
            agent = self.agents.get(session)
            if agent is None:
                continue
            if session in stored.readers or session in stored.waiting:
                self._send(agent, ObjectMissing(key, "Its owner has dropped it."), now)
            self._send(agent, ObjectRelease((key,)), now)
        for store in stored.stores:
            for agent in self.agents_by_store.get(store, ()):
                if agent.session not in stored.holders:
                    self._send(agent, ObjectRelease((key,)), now)

    def _on_receiver_fault(self, peer: Client | Agent, error: Exception, now: float) -> None:
        """What ``peer`` was to be sent raised: it pays for that, and the others do not notice."""
        faults.on_receiver(self, peer, error, now)

    def _end_peer(self, peer: bytes, now: float) -> None:
        if peer in self.agents:
            self._lose_agent(self.agents[peer], now)
        elif peer in self.clients:
            self._end_client(self.clients[peer], now)
            if peer in self.clients:
                self._abandon(self.clients[peer], now)

    def _abandon(self, client: Client, now: float) -> None:
        """Its session begins anew: answers to its cancels would be taken for answers to what comes."""
        client.table.abandon({index: agent.load for index, agent in self.agent_by_index.items()})
        self._remove_client(client, now)
        for agent in self.agents.values():
            self.allocator.offer(agent)

    def _expel(self, client: Client, text: str, now: float) -> None:
        self._log(f"Client {client.session.hex()[:8]}: {text}", "WARNING")
        self._refuse(client.session, Refused(RefusalReason.MALFORMED, text), client.route)
        self._end_client(client, now)

    def _orphan(self, client: Client, now: float) -> None:
        """Nobody listens to a nested client's session any more. Its tasks go on as its root client's, until they are
        done or the parent turns out to have died."""
        client.connected = False
        client.is_orphan = client.is_broken = True
        client.drop_deliveries()
        coordination.on_session_ended(self, client.session, now)
        is_alone = client.parent is None or client.parent.session not in self.clients
        if is_alone or client.table.unfinished == 0:
            self._end_client(client, now)

    def _end_client(self, client: Client, now: float) -> None:
        """It left or is given up: its tasks are cancelled, its objects dropped. A cancelled task that an agent still
        has is remembered by a client that nobody listens to, until the agent answered."""
        client.drop_deliveries()
        client.is_orphan = client.is_broken = True
        client.connected = False
        client.gone_at = None
        coordination.on_session_ended(self, client.session, now)
        self._cancel(client, None, now)
        client.rows.clear()
        for key in list(client.objects):
            self._release_object(client, key, now)
        self._waiting.pop(client.session, None)
        self._lineage.remove(client)
        for child in self._lineage.of_client(client.session):
            self._stop_nested(child, now)
        if client.table.unfinished == 0:
            self._remove_client(client, now)

    def _remove_client(self, client: Client, now: float) -> None:
        if self.clients.get(client.session) is not client:
            return  # it ended with its parent meanwhile
        del self.clients[client.session]
        coordination.on_session_ended(self, client.session, now)
        self._note_client_left(client)
        self._touched.pop(client.session, None)
        self._owing.pop(client.session, None)
        self._lineage.move_up(client.session, client.parent)
        self._lineage.remove(client)
        self._forget_reader(client.session, now)
        self._drop_functions(list(client.functions), now)
        self._drop_serializers(client, now)

    def _forget_reader(self, session: bytes, now: float) -> None:
        """Values were on their way to a peer that is gone: the next one's turn, or nobody's."""
        for key, holder, others in self.relays.forget_reader(session) if self.relays else ():
            agent = self.agents.get(holder)
            if agent is not None:
                self._send(agent, self.relays.request(key) if others else ObjectCredit(key, CREDIT_WITHOUT_END), now)

    def _forget_holder(self, session: bytes, now: float) -> None:
        """Agents that waited for values of a lost agent give up the tasks that need them; clients wait on."""
        for key, reader in self.relays.forget_holder(session) if self.relays else ():
            if reader in self.agents:
                self._send(self.agents[reader], ObjectMissing(key, LOST_TEXT), now)

    def _drop_unwanted(self, client: Client, now: float) -> None:
        """Functions that the client has let go of. Tasks that may yet run, or run again, need theirs."""
        if client.table.graphs:
            return
        loads = self.function_loads
        gone = [digest for digest in client.unwanted if digest not in loads or not loads[digest].unfinished]
        for digest in gone:
            del client.unwanted[digest]
            client.definition_bytes -= client.functions.pop(digest)
            self._release_object(client, ObjectKey(digest, 0), now)
        self._drop_functions(gone, now)

    def _drop_functions(self, digests: list[bytes], now: float) -> None:
        """A client needs these no more; agents forget those that nobody needs."""
        self._forget_at_agents([digest for digest in digests if self._is_last_user(digest)], now)

    def _drop_serializers(self, client: Client, now: float) -> None:
        """Clients let go of theirs only when they end."""
        for digest in client.serializers:
            self.serializer_users[digest] -= 1
        gone = [digest for digest in client.serializers if not self.serializer_users[digest]]
        for digest in gone:
            del self.serializer_users[digest], self.serializers[digest]
        self._forget_at_agents(gone, now)

    def _forget_at_agents(self, digests: list[bytes], now: float) -> None:
        gone = [digest for digest in digests if digest not in self.functions and digest not in self.serializers]
        for start in range(0, len(gone), _RELEASED_PER_MESSAGE):
            part = gone[start : start + _RELEASED_PER_MESSAGE]
            for agent in self.agents.values():
                known = [digest for digest in part if digest in agent.known]
                if known:
                    agent.known.difference_update(known)
                    self._send(agent, ObjectRelease(tuple(ObjectKey(digest, 0) for digest in known)), now)

    def _is_last_user(self, digest: bytes) -> bool:
        self.function_users[digest] -= 1
        if self.function_users[digest]:
            return False
        del self.function_users[digest]
        self.functions.pop(digest, None)
        self.function_loads.pop(digest, None)
        return True

    def _lose_agent(self, agent: Agent, now: float, blameless: bool = False) -> None:
        """It is gone for good: what it had is queued again, sessions that came through it are cut off."""
        del self.agents[agent.session]
        self._note_agent_lost(agent)
        del self.agent_by_index[agent.index]
        self._cancelling.pop(agent.index, None)
        agent.connected = False
        self.allocator.remove(agent)
        self._leave_store(agent)
        self._send_all(self.objects.forget_agent(agent.session), now)
        self.transfers.forget_agent(agent.session)
        self._forget_reader(agent.session, now)
        self._forget_holder(agent.session, now)
        self.unclaimed.forget_agent(agent)
        nested = [client for client in self.clients.values() if client.route == agent.session]
        ended = [(client, self._take_from(client, agent, blameless)) for client in list(self.clients.values())]
        # Only now, when nothing is with the lost agent any more: children are ended as clients are.
        for client, died in ended if self._lineage else ():
            for task in died:
                self._stop_children(client.session, task, now)
            self._stop_stale_children(client, now)
        for client in nested:
            if client.session in self.clients:
                self._orphan(client, now)

    def _leave_store(self, agent: Agent) -> None:
        others = self.agents_by_store.get(agent.store, [])
        if agent in others:
            others.remove(agent)
            if not others:
                del self.agents_by_store[agent.store]

    def _take_from(self, client: Client, agent: Agent, blameless: bool) -> list[int]:
        """Queue again what a lost agent had of a client; the tasks that ended instead."""
        ranges, died, cancelled = client.table.lose(agent.index, blameless, LOSSES_LIMIT, Status.WORKER_DIED)
        self._push(client, ranges, True)
        self._tell_cancelled(client, cancelled)
        for task in died:
            self._tell_failed(client, task, Status.WORKER_DIED)
        for _, first, stop in ranges:
            for task in client.large and [task for task in client.large if first <= task < stop]:
                del client.large[task]
        return died
