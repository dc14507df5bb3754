"""Who connects, and whether a link goes on where it was."""

from __future__ import annotations

from scaler_protocol.messages import Challenge, Hello, Role, TaskName, Welcome
from scaler_scheduler.core import coordination
from scaler_scheduler.core.admission import answer_to_hello
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.from_clients import FromClients
from scaler_scheduler.core.settings import HOLD_SECONDS


class Hellos(FromClients):
    """Who connects, and whether a link goes on where it was."""

    def _on_hello(self, peer: bytes, hello: Hello, route: bytes | None, now: float, user: bytes = b"") -> None:
        """``user``: whose key the connection showed, if it is not the one that the session began with."""
        known = self.agents.get(peer) or self.clients.get(peer)
        if known is not None and not user:
            user = known.user
        answer = answer_to_hello(self.settings, peer, hello, route, user, now)
        if isinstance(answer, Challenge):
            self._answer(peer, None, answer, now)
            return
        if answer is not None:
            self._refuse(peer, answer, route)
            self._warn(self._refused, f"Refused {peer.hex()[:8]}: {answer.text}", now)
            return
        self._ignored.pop(peer, None)
        self._arm(now)
        if known is not None and self._may_resume(known, hello, route):
            self._resume(known, hello, now)
            return
        if isinstance(known, Client) and _is_blank(known, hello, route):
            self._greet_again(known, hello, now)
            return
        if known is not None:
            self._end_peer(peer, now)
        if hello.epoch:
            coordination.on_return(self, now)
        if hello.role == Role.WORK:
            self._new_agent(hello, user, now)
        else:
            self._new_client(hello, route, user, now)

    def _may_resume(self, known: Client | Agent, hello: Hello, route: bytes | None) -> bool:
        """Not when the peer speaks of a link that ended here: it has received more than this one sent, or begins after
        what this one received."""
        is_agent = isinstance(known, Agent)
        if is_agent != (hello.role == Role.WORK) or known.route != route or known.is_broken:
            return False
        return hello.epoch == self.settings.epoch and hello.received <= known.link.sent

    def _welcome(self, hello: Hello, received: int, resumed: bool) -> Welcome:
        settings = self.settings
        welcome = Welcome(
            session=settings.session,
            epoch=settings.epoch,
            received=received,
            resumed=resumed,
            protected=settings.protected,
            distribution_version=settings.version,
            python_version=settings.python_version,
            number=hello.number,
            cluster=settings.cluster,
        )
        return welcome if settings.handshake is None else settings.handshake.prove(hello, welcome)

    def _resume(self, peer: Client | Agent, hello: Hello, now: float) -> None:
        peer.connected = True
        if isinstance(peer, Agent):
            peer.lost_at = None
            self._heard(peer, now)
            self.allocator.offer(peer)
        else:
            peer.gone_at = None
        self._answer(peer.session, peer.route, self._welcome(hello, peer.link.received, True), now)
        for envelope in peer.link.resume(hello.received):
            self._transmit(peer, envelope, now)

    def _greet_again(self, client: Client, hello: Hello, now: float) -> None:
        """It did not hear the Welcome and says Hello again. Its session goes on: after a restart of the scheduler
        clients inside its tasks may have come back before it."""
        client.hello = hello
        client.connected = True
        client.gone_at = None
        client.states_until = now + HOLD_SECONDS
        self._adopt_named(client, hello)
        self._answer(client.session, client.route, self._welcome(hello, 0, False), now)

    def _adopt_named(self, client: Client, hello: Hello) -> None:
        if hello.parent_session:
            name = hello.parent_session, hello.parent_task, hello.parent_attempt, hello.parent_depth
            self._adopt(client, TaskName(*name))

    def _new_agent(self, hello: Hello, user: bytes, now: float) -> None:
        agent = Agent(hello, self._next_agent_index, now, self._cancelling)
        agent.user = user
        self._next_agent_index += 1
        self.agents[agent.session] = agent
        self.agent_by_index[agent.index] = agent
        self._answer(agent.session, None, self._welcome(hello, 0, False), now)

    def _new_client(self, hello: Hello, route: bytes | None, user: bytes, now: float) -> None:
        client = Client(hello, route, self.totals, now)
        client.user = user
        self.clients[client.session] = client
        self._adopt_named(client, hello)
        self._note_client_joined(client)
        self._answer(client.session, route, self._welcome(hello, 0, False), now)

    def _heard(self, agent: Agent, now: float) -> None:
        agent.heard_at = now
        agent.excused_seconds = 0.0
        if agent.suspect:
            agent.suspect = agent.is_relieved = False
            self._log(f"Agent {agent.title()} is back")
            self.allocator.offer(agent)


def _is_blank(client: Client, hello: Hello, route: bytes | None) -> bool:
    """Nothing was said on its link yet, in either direction: it is as good as a new one."""
    if client.is_broken or hello.role == Role.WORK or client.route != route:
        return False
    return client.link.received == client.link.sent == 0
