"""Messages of agents, and of nested clients that agents relay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scaler_protocol import codec
from scaler_protocol.messages import (
    UPLOAD_NUMBER,
    AgentAttach,
    Blocked,
    Body,
    Envelope,
    Goodbye,
    Heartbeat,
    HeartbeatEcho,
    Hello,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRequest,
    ObjectsLost,
    ObjectStored,
    Output,
    RefusalReason,
    Refused,
    Relay,
    RelayClosed,
    Status,
    StoreAttached,
    StoreStatus,
    Tasks,
    WhoAreYou,
    Withdrawn,
)
from scaler_scheduler.core import faults
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.from_clients import TASKS_LIMIT_BYTES, TOO_LARGE_TEXT
from scaler_scheduler.core.hellos import Hellos
from scaler_scheduler.core.objects import LOST_TEXT, SOURCES_LIMIT
from scaler_scheduler.core.relays import is_last
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.states import DEPTH_LIMIT, LENT_LIMIT, LOSSES_LIMIT, Action


class FromAgents(Hellos):
    """Messages of agents, and of nested clients that agents relay."""

    def _on_agent_body(self, agent: Agent, body: Body, now: float) -> None:
        handler = _AGENT_HANDLERS.get(type(body))
        if handler is not None:
            handler(self, agent, body, now)

    def _on_attach(self, agent: Agent, body: AgentAttach, now: float) -> None:
        if agent.attached:
            return
        agent.attach(body, self.settings.per_worker_queue_size, now)
        self.allocator.add(agent)
        self._log(f"Agent {agent.title()} joined with {agent.load.slots} workers")
        for column in body.holds:
            self._claim(agent, column, now)
        self._note_agent_joined(agent, now)
        self.allocator.offer(agent)

    def _on_withdrawn(self, agent: Agent, body: Withdrawn, now: float) -> None:
        given = 0
        agent.is_leaving = agent.is_leaving or body.leaving
        for column in body.columns:
            given += len(column.tasks)
            if self.unclaimed:
                self.unclaimed.withdraw(agent, column.session, column.tasks)
            client = self.clients.get(column.session)
            if client is None:
                continue
            ranges, cancelled = client.table.withdrawn(
                column.tasks, column.attempts, agent.load, agent.withdraw_pending
            )
            self._push(client, ranges, True)
            self._tell_cancelled(client, cancelled)
        if agent.withdraw_pending:
            self._balancer.answered(agent, given, now)
        self.allocator.offer(agent)

    def _on_heartbeat(self, agent: Agent, body: Heartbeat, now: float) -> None:
        agent.heartbeat = body
        self._send(agent, HeartbeatEcho(body.sent_at, self.events.is_on), now)

    def _on_blocked(self, agent: Agent, body: Blocked, now: float) -> None:
        agent.load.lent = min(body.lent_slots, LENT_LIMIT)
        is_limited = body.lent_slots and not body.any_depth
        agent.load.deepest = min(body.deepest, DEPTH_LIMIT) if is_limited else -1
        self.allocator.offer(agent)

    def _on_relay(self, agent: Agent, body: Relay, now: float) -> None:
        session = body.session
        try:
            inner = codec.decode(list(body.frames))
            if type(inner.body) is Tasks and sum(map(len, body.frames)) > TASKS_LIMIT_BYTES:
                raise codec.MalformedMessage(TOO_LARGE_TEXT)
        except codec.MalformedMessage as error:
            self._refuse_nested(agent, session, f"The message is malformed: {error}", now)
            return
        client = self.clients.get(session)
        if isinstance(inner.body, Hello):
            if session in self.agents or (client is not None and client.route != agent.session):
                refused = Refused(RefusalReason.SESSION, "This session is connected elsewhere.")
                self._relay(session, agent.session, Envelope(refused), now)
            else:
                self._on_hello(session, inner.body, agent.session, now)
        elif client is not None and client.route == agent.session:
            try:
                self._on_client_message(client, inner, now)
            except Exception as error:
                faults.on_nested_message(self, agent, session, type(inner.body).__name__, error, now)
        elif session not in self._ignored:
            self._relay(session, agent.session, Envelope(WhoAreYou()), now)

    def _refuse_nested(self, agent: Agent, session: bytes, text: str, now: float) -> None:
        client = self.clients.get(session)
        if session in self.agents or (client is not None and client.route != agent.session):
            return  # it is none of this agent's
        self._refuse(session, Refused(RefusalReason.MALFORMED, text), agent.session)
        if client is not None:
            self._end_client(client, now)

    def _on_relay_closed(self, agent: Agent, body: RelayClosed, now: float) -> None:
        client = self.clients.get(body.session)
        if client is not None and client.route == agent.session:
            self._ignored.pop(body.session, None)
            self._orphan(client, now)

    def _on_agent_goodbye(self, agent: Agent, body: Goodbye, now: float) -> None:
        self._log(f"Agent {agent.title()} left")
        self._send_acknowledgement(agent, now)
        self._ignore(agent.session)
        self._lose_agent(agent, now, blameless=True)

    def _on_agent_chunk(self, agent: Agent, body: ObjectChunk | ObjectMissing, now: float) -> None:
        """A value on its way to whoever asked for it, or the news that it is gone; nothing is kept here."""
        key = body.key
        if isinstance(body, ObjectMissing):
            self._on_value_missing(agent, body, now)
            return
        reader = self.relays.reader(key, agent.session)
        if reader is not None:
            self._send_all([(reader, body)], now)
            if is_last(body):
                self._serve_next(agent, key, now)

    def _on_locations(self, agent: Agent, body: ObjectLocations, now: float) -> None:
        """A holder says where the store of whoever asked can fetch a value."""
        reader = self.relays.reader(body.key, agent.session)
        if reader is not None:
            self._send_all([(reader, replace(body, sources=self._sources(body, reader)))], now)
            self._serve_next(agent, body.key, now)

    def _sources(self, body: ObjectLocations, reader: bytes) -> tuple[str, ...]:
        """Behind the holder's store, those that have fetched the value: they are tried when that is gone or stalls."""
        client = self.clients.get(body.key.owner)
        if client is None or body.key.number >= UPLOAD_NUMBER:
            return body.sources
        copies = [self.agent_by_index.get(index) for index in client.table.copies_of(body.key.number)]
        others = [each.store_endpoint for each in copies if each is not None and each.session != reader]
        return tuple(dict.fromkeys((*body.sources, *filter(None, others))))[:SOURCES_LIMIT]

    def _on_value_missing(self, agent: Agent, body: ObjectMissing, now: float) -> None:
        """A client waits until the task has run again, if that is so; agents give up the tasks that need the value."""
        readers = self.relays.drop(body.key)
        runs_again = self._lose_value(agent, body.key, now)
        self._send_all([(each, body) for each in readers if each in self.agents or not runs_again], now)

    def _lose_value(self, agent: Agent, key: ObjectKey, now: float) -> bool:
        """Its holder does not have it any more. Whether its task runs again for the client."""
        client = self.clients.get(key.owner)
        if client is None or key.number >= UPLOAD_NUMBER:
            return False
        action = client.table.lose_value(key.number, agent.index, LOSSES_LIMIT)
        if action == Action.NOTHING:
            return False
        client.large.pop(key.number, None)
        if action == Action.GIVE_UP:
            client.table.finish(key.number, Status.OBJECT_MISSING)
            self._tell_failed(client, key.number, Status.OBJECT_MISSING)
            return False
        if action == Action.REQUEUE:
            self._requeue(client, key.number)
        return True

    def _on_lost(self, agent: Agent, body: ObjectsLost, now: float) -> None:
        for key in body.keys:
            if key.number < UPLOAD_NUMBER:
                self._on_value_missing(agent, ObjectMissing(key, LOST_TEXT), now)
            else:
                self.objects.lose_copy(agent.session, key, agent.store)

    def _on_store(self, agent: Agent, body: StoreAttached, now: float) -> None:
        if agent.store and body.store != agent.store:
            self.objects.forget_store(agent.store)
        self._leave_store(agent)
        agent.store, agent.store_endpoint = body.store, body.endpoint
        self.allocator.join_store(agent, body.store)
        if body.store:
            self.agents_by_store.setdefault(body.store, []).append(agent)

    def _on_store_status(self, agent: Agent, body: StoreStatus, now: float) -> None:
        agent.store_status = body

    def _on_agent_request(self, agent: Agent, body: ObjectRequest, now: float) -> None:
        key = body.key
        self.transfers.end(agent.session, key, 0, now)
        if key.owner in self.clients and key.number < UPLOAD_NUMBER:
            self._on_value_request(agent, self.clients[key.owner], body, now)
            return
        until = self._awaited(agent, key, now)
        endpoints = {} if body.relayed else self._endpoints()
        self._send_all(self.objects.on_request(agent.session, key, until, endpoints), now)
        self._arm(now)

    def _awaited(self, agent: Agent, key: ObjectKey, now: float) -> float | None:
        """Until when the owner of an object may still speak of it."""
        until = self._stated_by(key, now)
        if until is None and key.owner not in self.clients and now < agent.attached_at + HOLD_SECONDS:
            return agent.attached_at + HOLD_SECONDS  # after a restart of the scheduler: its owner may come back, too
        return until

    def _endpoints(self) -> dict[bytes, str]:
        """Where stores serve others, by store."""
        return {store: agents[0].store_endpoint for store, agents in self.agents_by_store.items()}

    def _on_agent_stored(self, agent: Agent, body: ObjectStored, now: float) -> None:
        """Its store has fetched an object, and can serve it, too."""
        self.transfers.end(agent.session, body.key, body.size, now)
        self.allocator.locations.bytes_per_us = self.transfers.bytes_per_second / 1e6
        key = body.key
        if key.owner in self.clients and 0 < key.number < UPLOAD_NUMBER:
            return  # a copy of a value; its task's table knows
        until = self._awaited(agent, key, now)
        self._send_all(self.objects.on_copied(agent.session, body, until, self._endpoints()), now)
        self._arm(now)

    def _on_value_request(self, agent: Agent, client: Client, body: ObjectRequest, now: float) -> None:
        """A task there needs the value of a node that another agent holds."""
        key = body.key
        index = client.table.value_holder(key.number)
        if index == agent.index:  # who should have it asks for it
            self._lose_value(agent, key, now)
        if index is None or index == agent.index or index not in self.agent_by_index:
            self._send(agent, ObjectMissing(key, "The value is nowhere: its task must run again."), now)
            return
        client.table.note_copy(key.number, agent.index)
        self._fetch(self.agent_by_index[index], key, agent.session, body.relayed, now)

    def _on_agent_credit(self, agent: Agent, body: ObjectCredit, now: float) -> None:
        self.transfers.end(agent.session, body.key, 0, now)
        if self.relays.holder(body.key, agent.session) is not None:
            self._pass_credit(agent.session, body, now)
            return
        self._send_all(self.objects.on_credit(agent.session, body), now)

    def _on_output(self, agent: Agent, body: Output, now: float) -> None:
        client = self.clients.get(body.session)
        if client is None or not client.is_reachable:
            return
        if client.is_paused:
            client.output_left_out_bytes += len(body.data)
            return
        if client.output_left_out_bytes:
            body = replace(body, data=client.take_note_of_left_out() + body.data)
        client.sent(self._send(client, body, now), [], len(body.data) + len(body.warnings))


_Handler = Callable[[FromAgents, Agent, Any, float], None]

_AGENT_HANDLERS: dict[type, _Handler] = {
    AgentAttach: FromAgents._on_attach,
    Withdrawn: FromAgents._on_withdrawn,
    Heartbeat: FromAgents._on_heartbeat,
    Blocked: FromAgents._on_blocked,
    Relay: FromAgents._on_relay,
    RelayClosed: FromAgents._on_relay_closed,
    ObjectChunk: FromAgents._on_agent_chunk,
    ObjectMissing: FromAgents._on_agent_chunk,
    ObjectRequest: FromAgents._on_agent_request,
    ObjectCredit: FromAgents._on_agent_credit,
    ObjectLocations: FromAgents._on_locations,
    ObjectStored: FromAgents._on_agent_stored,
    ObjectsLost: FromAgents._on_lost,
    StoreAttached: FromAgents._on_store,
    StoreStatus: FromAgents._on_store_status,
    Output: FromAgents._on_output,
    Goodbye: FromAgents._on_agent_goodbye,
}
