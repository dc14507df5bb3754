"""Messages of clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scaler_protocol import ids
from scaler_protocol.codec import TaskRun
from scaler_protocol.keys import role_of_user
from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    INLINE_LIMIT_BYTES,
    MESSAGE_LIMIT_BYTES,
    UPLOAD_NUMBER,
    Body,
    Cancel,
    Clear,
    ClusterInfo,
    ClusterInfoRequest,
    ExplainRequest,
    FunctionDefinition,
    Goodbye,
    LockRequest,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    Role,
    ShutdownReply,
    ShutdownRequest,
    Status,
    Stop,
    TaskName,
    TaskOptions,
    Tasks,
)
from scaler_scheduler.core import coordination, explanation, queue_bound, stated_cancels
from scaler_scheduler.core.agents import Agent, demand_of
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.effects import Describe
from scaler_scheduler.core.limits import DESCRIPTION_SECONDS, FUNCTION_BYTES
from scaler_scheduler.core.outcomes import Outcomes
from scaler_scheduler.core.queue_classes import QueueClass
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.settings import HOLD_SECONDS, STOP_SECONDS
from scaler_scheduler.core.states import DEPTH_LIMIT, TaskState
from scaler_scheduler.core.stored_objects import Forged

TASKS_LIMIT_BYTES = MESSAGE_LIMIT_BYTES * 3 // 2
"""Of a message with tasks: with the functions that they need it must fit one to an agent. Clients send far less."""

TOO_LARGE_TEXT = f"Tasks are sent in messages of at most {TASKS_LIMIT_BYTES} bytes."
PROTECTED_TEXT = "Scheduler is in protected mode. Can't shutdown"
_WITHOUT_VALUE = (TaskState.ENDED, TaskState.FREED)
"""There is no result, and none will be made for a client that asks."""

NOT_ADMIN_TEXT = "This client's key may not shut the scheduler down: that needs admin.key"


class FromClients(Outcomes):
    """Messages of clients."""

    def _on_client_body(self, client: Client, body: Body, now: float) -> None:
        handler = _CLIENT_HANDLERS.get(type(body))
        if handler is not None:
            handler(self, client, body, now)

    def _define_all(self, client: Client, body: Tasks, now: float) -> bool:
        """The functions and serializers that come with tasks; False: the client is expelled."""
        if not all(_is_named_by_content(each) for each in (*body.functions, *body.serializers)):
            self._expel(client, "A function is not named by its digest, or is too large for a message.", now)
            return False
        for definition in body.functions:
            self._define(client, definition)
        for definition in body.serializers:
            self._define_serializer(client, definition)
        return True

    def _on_resubmitted(self, client: Client, now: float) -> None:
        client.states(now)
        self._match_unclaimed(client, now)

    def _adopt(self, client: Client, parent: TaskName) -> None:
        """A nested client lives in ``parent`` from now on: its tasks are deeper than that task, and stop with it. After
        a restart of the scheduler it may be the first to speak of it."""
        self._lineage.move_up(client.session, client.parent)
        self._lineage.remove(client)
        if parent.session == client.session:
            return
        owner = self.clients.get(parent.session)
        known = owner.table.describe(parent.task) if owner is not None else None
        client.depth = min(1 + (parent.depth if known is None else known[5].depth), DEPTH_LIMIT)
        self._lineage.add(client, parent)

    def _define(self, client: Client, definition: FunctionDefinition) -> None:
        digest = definition.digest
        client.unwanted.pop(digest, None)
        if digest in client.functions:
            return
        client.functions[digest] = _size_of(definition)
        client.definition_bytes += client.functions[digest]
        self.functions[digest] = definition
        self.function_users[digest] = self.function_users.get(digest, 0) + 1

    def _on_used_numbers(self, client: Client, run: TaskRun, now: float) -> bool:
        """A run whose numbers are not new. False: the client is expelled.

        A client that was interrupted while it sent a message may send its runs twice: the second copy is dropped. No
        other run begins below a number that was used, because numbers only increase.
        """
        if run.first_task + run.count <= client.table.next_task:
            return True
        self._expel(client, f"Task numbers only increase, but {run.first_task} was used before.", now)
        return False

    def _set_aside(self, client: Client, record: RunRecord, state: TaskState, now: float) -> None:
        """Tasks that are not queued yet."""
        if state == TaskState.HELD:
            client.held.append((record.first, record.stop))
            client.hold_until = now + HOLD_SECONDS
        else:
            queue_bound.hold_back(self, client, record)

    def _enter_graph(self, client: Client, record: RunRecord, resubmitted: bool, now: float) -> None:
        """Nodes of a graph. They pass the bound of the queue: their inputs may be behind it."""
        self._graph_clients[client.session] = client
        is_entered = client.table.append_graph(record, TaskState.HELD if resubmitted else TaskState.QUEUED)
        if resubmitted:
            client.hold_until = now + HOLD_SECONDS
            self._arm(now)
        if not is_entered:
            for task in range(record.first, record.stop):
                self._tell_failed(client, task, Status.OBJECT_MISSING)

    def _define_serializer(self, client: Client, definition: FunctionDefinition) -> None:
        digest = definition.digest
        if digest not in client.serializers:
            client.serializers[digest] = _size_of(definition)
            client.definition_bytes += client.serializers[digest]
            self.serializers[digest] = definition
            self.serializer_users[digest] = self.serializer_users.get(digest, 0) + 1

    def _queue_for(self, options: TaskOptions) -> QueueClass:
        demand = demand_of(options.capabilities) if options.capabilities else ()
        return self.allocator.queue_class(demand, min(max(options.depth, 0), DEPTH_LIMIT))

    def _entry_state(self, client: Client, record: RunRecord) -> TaskState:
        """When the number of waiting tasks is bounded."""
        return queue_bound.entry_state(self, client, record)

    def _admit_waiting(self, now: float) -> None:
        queue_bound.admit_waiting(self, now)

    def _deepened(self, options: TaskOptions, depth: int) -> TaskOptions:
        key = (options, depth)
        if key not in self._options:
            if len(self._options) > 1000:
                self._options.clear()
            self._options[key] = replace(options, depth=depth)
        return self._options[key]

    def _on_cancel(self, client: Client, body: Cancel, now: float) -> None:
        for column in body.columns:
            if column.session == client.session:
                self._cancel(client, column.tasks, now)
                stated_cancels.on_cancel(self, client, column.tasks, now)

    def _on_clear(self, client: Client, body: Clear, now: float) -> None:
        self._cancel(client, None, now)
        client.waiting.clear()
        client.held.clear()
        for key in list(client.objects):
            self._release_object(client, key, now)

    def _on_goodbye(self, client: Client, body: Goodbye, now: float) -> None:
        self._send_acknowledgement(client, now)
        self._ignore(client.session)
        self._end_client(client, now)

    def _on_client_object(self, client: Client, body: ObjectChunk | ObjectStored, now: float) -> None:
        key = body.key
        if key.owner != client.session and (key.number or key.owner in self.clients):
            self._expel(client, "A client may only upload objects of its own session.", now)
            return
        client.objects[key] = True
        client.states(now)
        try:
            if isinstance(body, ObjectStored):
                replies = self.objects.on_stored(client.session, body)
            else:
                replies = self.objects.on_chunk(client.session, body)
        except Forged as error:
            self._expel(client, str(error), now)
            return
        self._send_all(replies, now)

    def _on_client_missing(self, client: Client, body: ObjectMissing, now: float) -> None:
        self._send_all(self.objects.on_lost(client.session, body.key), now)

    def _on_client_request(self, client: Client, body: ObjectRequest, now: float) -> None:
        key = body.key
        agent = self._result_holder(client, key)
        if agent is not None:
            client.fetching[key.number] = True
            self._fetch(agent, key, client.session, not body.direct, now)
        elif key.owner == client.session and client.table.state(key.number) not in _WITHOUT_VALUE:
            client.fetching[key.number] = True
        else:
            self._send(client, ObjectMissing(key, "The result is not there any more."), now)

    def _on_client_credit(self, client: Client, body: ObjectCredit, now: float) -> None:
        self._pass_credit(client.session, body, now)

    def _pass_credit(self, reader: bytes, credit: ObjectCredit, now: float) -> None:
        """Of somebody who reads a value, to its holder."""
        holder = self.relays.holder(credit.key, reader)
        if holder is not None and holder in self.agents:
            self._send(self.agents[holder], credit, now)
            if credit.offset == CREDIT_WITHOUT_END:
                self._serve_next(self.agents[holder], credit.key, now)

    def _serve_next(self, holder: Agent, key: ObjectKey, now: float) -> None:
        if self.relays.next(key):
            self._send(holder, self.relays.request(key), now)

    def _result_holder(self, client: Client, key: ObjectKey) -> Agent | None:
        if key.owner != client.session or key.number >= UPLOAD_NUMBER:
            return None
        known = client.table.describe(key.number)
        if known is None or known[0] != TaskState.DONE_LARGE:
            return None
        return self.agent_by_index.get(known[2])

    def _on_client_release(self, client: Client, body: ObjectRelease, now: float) -> None:
        results = []
        for key in body.keys:
            if key.owner == client.session and key.number < UPLOAD_NUMBER:
                results.append(key.number)
            elif key.number == 0 and key.owner in client.functions:
                client.unwanted[key.owner] = True
            elif key.owner == client.session or key in client.objects:
                self._release_object(client, key, now)
        unneeded = client.table.release(results) if results else None
        if unneeded:
            self._cancel(client, unneeded, now)
        if client.unwanted:
            self._drop_unwanted(client, now)

    def _on_explain(self, client: Client, body: ExplainRequest, now: float) -> None:
        task = body.task
        self._send(client, explanation.answer(task, self.explain(client.session, task)), now)

    def explain(self, session: bytes, task: int) -> str:
        """Where a task is, and why it is not further."""
        return explanation.explain(self, session, task)

    def _on_cluster_info(self, client: Client, body: ClusterInfoRequest, now: float) -> None:
        at, snapshot = self._description
        if now - at < DESCRIPTION_SECONDS:
            self._send(client, ClusterInfo(snapshot), now)
        else:
            self._effects.append(Describe(client.session))

    def on_described(self, session: bytes, snapshot: bytes, now: float) -> None:
        """What a client asked for, encoded; empty: it is too large for a message."""
        self._description = now, snapshot
        client = self.clients.get(session)
        if client is not None:
            self._send(client, ClusterInfo(snapshot), now)

    def _on_shutdown(self, client: Client, body: ShutdownRequest, now: float) -> None:
        if self.settings.protected:
            self._send(client, ShutdownReply(False, PROTECTED_TEXT), now)
            return
        if not self._may_shut_down(client):
            self._send(client, ShutdownReply(False, NOT_ADMIN_TEXT), now)
            return
        self._send(client, ShutdownReply(True), now)
        self._shutdown_by[client.session] = True
        self._log("Scheduler: shutdown asked for by a client")
        self.is_stopping = True
        self._quit_at = now + STOP_SECONDS
        for agent in self.agents.values():
            self._send(agent, Stop(), now)

    def _may_shut_down(self, client: Client) -> bool:
        """With keys, only administrators. A client inside a task is no better than its agent."""
        agent = self.agents.get(client.route) if client.route is not None else None
        user = client.user if agent is None else agent.user
        return not user or role_of_user(user) == Role.ADMIN


def _size_of(definition: FunctionDefinition) -> int:
    return FUNCTION_BYTES + len(definition.payload)


def _is_named_by_content(definition: FunctionDefinition) -> bool:
    """Others name the same function so, and are to get no other."""
    payload = definition.payload
    return not payload or (len(payload) <= INLINE_LIMIT_BYTES and ids.digest(payload) == definition.digest)


_Handler = Callable[[FromClients, Client, Any, float], None]

_CLIENT_HANDLERS: dict[type, _Handler] = {
    Cancel: FromClients._on_cancel,
    Clear: FromClients._on_clear,
    ObjectChunk: FromClients._on_client_object,
    ObjectStored: FromClients._on_client_object,
    ObjectMissing: FromClients._on_client_missing,
    ObjectRequest: FromClients._on_client_request,
    ObjectCredit: FromClients._on_client_credit,
    ObjectRelease: FromClients._on_client_release,
    ExplainRequest: FromClients._on_explain,
    ClusterInfoRequest: FromClients._on_cluster_info,
    ShutdownRequest: FromClients._on_shutdown,
    LockRequest: coordination.on_request,
    Goodbye: FromClients._on_goodbye,
}
