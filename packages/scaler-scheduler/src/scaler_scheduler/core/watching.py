"""What the scheduler writes down for monitors beside the life of tasks: who is there, who comes and who leaves."""

from __future__ import annotations

from scaler_protocol.ids import shown_id
from scaler_protocol.messages import HeartbeatEcho
from scaler_protocol.monitor.records import Kind
from scaler_protocol.monitor.ring import RingWriter
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.base import SchedulerState
from scaler_scheduler.core.clients import Client


class Watching(SchedulerState):
    """Recording for monitors begins and ends."""

    def watch(self, ring: RingWriter, clock_offset: float, now: float) -> None:
        """Write all that happens from now on into ``ring``. ``clock_offset``: seconds since 1970 at the core's time
        0."""
        self.events.now = now
        self.events.start(ring, clock_offset)
        for agent in self.agents.values():
            if agent.attached:
                self._name_agent(agent)
        for client in self.clients.values():
            self._name_client(client)
        self._tell_watched(now)

    def unwatch(self, now: float) -> None:
        self.events.stop()
        self._tell_watched(now)

    def _tell_watched(self, now: float) -> None:
        for agent in self.agents.values():
            if agent.attached:
                self._send(agent, HeartbeatEcho(0.0, self.events.is_on), now)

    def _note_agent_joined(self, agent: Agent, now: float) -> None:
        if self.events.is_on:
            self._name_agent(agent)
            self.events.note(Kind.AGENT_JOINED, agent=agent.index)
            self._send(agent, HeartbeatEcho(0.0, True), now)

    def _note_agent_lost(self, agent: Agent) -> None:
        if self.events.is_on and agent.attached:
            self.events.note(Kind.AGENT_LOST, agent=agent.index)

    def _note_client_joined(self, client: Client) -> None:
        if self.events.is_on:
            self._name_client(client)
            self.events.note(Kind.CLIENT_JOINED, session=client.table.number)

    def _note_client_left(self, client: Client) -> None:
        if self.events.is_on:
            self.events.note(Kind.CLIENT_LEFT, session=client.table.number)

    def _name_agent(self, agent: Agent) -> None:
        value = {"session": agent.shown_id.hex(), "name": agent.name, "host": agent.host, "pid": agent.pid}
        self.events.name_agent(agent.index, value | {"workers": agent.worker_names})

    def _name_client(self, client: Client) -> None:
        hello = client.hello
        value = {"session": client.shown_id.hex(), "host": hello.host, "pid": hello.pid}
        self.events.name_session(client.table.number, value | {"parent": shown_id(hello.parent_session).hex()})
