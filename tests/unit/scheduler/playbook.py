"""Conversations with a scheduler's core: bodies from named peers go in, bodies to named peers come out.

Each peer keeps its own end of its link, as a real one does, so that numbering, acknowledgements and repetition take
part.
"""

from __future__ import annotations

from scaler_protocol import codec
from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.ids import digest, split_ids
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Acknowledgement,
    AgentAttach,
    AllReported,
    Body,
    Capability,
    Envelope,
    FunctionDefinition,
    HeartbeatEcho,
    Hello,
    Ping,
    Relay,
    Results,
    ResultsReleased,
    Role,
    StartingAgents,
    Status,
    TaskColumn,
    TaskOptions,
    Tasks,
    Welcome,
)
from scaler_scheduler.core.effects import Audit, Log, Quit, Send, Trouble
from scaler_scheduler.core.scheduler import SchedulerCore
from scaler_scheduler.core.settings import Settings

PICKLES = {digest(pickle): pickle for pickle in (b"pickle", b"another pickle")}
FUNCTION, OTHER_FUNCTION = PICKLES
ROUTINE = (Acknowledgement, Ping, HeartbeatEcho, ResultsReleased, StartingAgents)
"""Bodies that go without saying; tests that are about them ask for them."""


class Peer:
    def __init__(self, playbook: Playbook, name: str, role: Role, via: Peer | None = None) -> None:
        self.playbook = playbook
        self.name = name
        self.role = role
        self.via = via
        self.session = name.encode().ljust(16, b".")
        self.link = Link()
        self.epoch = 0
        self.welcome: Welcome | None = None
        self.starting_agents: dict[bytes, None] = {}

    def hello(self, **changes) -> Hello:
        values = {
            "role": self.role,
            "session": self.session,
            "epoch": self.epoch,
            "received": self.link.received,
            "host": "host",
            "pid": 1,
        }
        return Hello(**{**values, **changes})

    def connect(self, **changes) -> list:
        """Say Hello; what the scheduler answers after its Welcome."""
        self.playbook.deliver(self, Envelope(self.hello(**changes)))
        return self.playbook.run()

    def says(self, *bodies: Body) -> list:
        """All in one drain; what the scheduler then says to whom."""
        for body in bodies:
            self.playbook.deliver(self, self.link.wrap(body))
        return self.playbook.run()

    def hears(self, envelope: Envelope) -> Body | None:
        body = envelope.body
        if isinstance(body, Welcome):
            self.welcome, self.epoch = body, body.epoch
            if body.resumed:
                for again in self.link.resume(body.received):
                    self.playbook.deliver(self, again)
            else:
                self.link = Link()
            return None
        if not self.link.accept(envelope):
            return None
        if isinstance(body, StartingAgents):
            self.learn(body)
        return body

    def learn(self, body: StartingAgents) -> None:
        """Note the agents that may start its tasks, and confirm that at once, as a client does."""
        for session in split_ids(body.gone):
            self.starting_agents.pop(session, None)
        self.starting_agents.update(dict.fromkeys(split_ids(body.sessions)))
        self.playbook.to_confirm.append(self)

    def states_agents(self, *agents: Peer) -> StartingAgents:
        """The message that tells a restarted scheduler of these agents."""
        return StartingAgents(b"".join(agent.session for agent in agents))


class Playbook:
    def __init__(self, now: float = 100.0, epoch: int = 1, **settings) -> None:
        self.now = now
        values = {"address": "inproc://scheduler", "session": b"scheduler.......", "epoch": epoch}
        self.core = SchedulerCore(Settings(**{**values, **settings}), now)
        self.peers: dict[bytes, Peer] = {}
        self.logs: list[str] = []
        self.audits: list[Audit] = []
        self.troubles: list[Trouble] = []
        self.has_quit = False
        self.deaf: set[str] = set()
        self.to_confirm: list[Peer] = []

    # ---- peers -----------------------------------------------------------------------------------------------------

    def client(self, name: str = "client", via: Peer | None = None, **hello) -> Peer:
        peer = self._peer(name, Role.SUBMIT, via)
        assert peer.connect(**hello) == []
        return peer

    def agent(
        self,
        name: str = "agent",
        slots: int = 1,
        capabilities: dict[str, int] | None = None,
        holds: tuple[TaskColumn, ...] = (),
        reports_all: bool = False,
    ) -> Peer:
        """``reports_all``: it says that it has nothing else from before a restart."""
        peer = self._peer(name, Role.WORK)
        assert peer.connect() == []
        bodies = [attach(name, slots, capabilities, holds), *([AllReported()] if reports_all else [])]
        peer.joined = peer.says(*bodies)
        return peer

    def _peer(self, name: str, role: Role, via: Peer | None = None) -> Peer:
        peer = Peer(self, name, role, via)
        self.peers[peer.session] = peer
        return peer

    # ---- time and messages -----------------------------------------------------------------------------------------

    def deliver(self, peer: Peer, envelope: Envelope) -> None:
        if peer.via is None:
            self.core.on_message(peer.session, envelope, self.now)
        else:
            relay = Relay(peer.session, tuple(codec.encode(envelope)))
            self.deliver(peer.via, peer.via.link.wrap(relay))

    def wait(self, seconds: float, speaking: tuple[Peer, ...] = ()) -> list:
        """Let time pass, in steps as a shell's timer would. ``speaking`` agents send a ping now and then."""
        said = []
        end = self.now + seconds
        while self.now < end - 1e-9:
            deadline = self.core.next_deadline()
            self.now = min(end, max(self.now + 0.001, deadline if deadline is not None else end), self.now + 0.2)
            for peer in speaking:
                self.deliver(peer, peer.link.wrap(Ping()))
            self.core.on_deadline(self.now)
            said += self.run()
        return said

    def lose(self, peer: Peer) -> list:
        self.core.on_peer_lost(peer.session, self.now)
        return self.run()

    def run(self) -> list:
        """Carry out effects; [(peer, body)] without what goes without saying."""
        said = []
        for effect in self.core.take_effects(self.now):
            if isinstance(effect, Send):
                said += self._hear(effect)
            elif isinstance(effect, Log):
                self.logs.append(effect.text)
            elif isinstance(effect, Audit):
                self.audits.append(effect)
            elif isinstance(effect, Trouble):
                self.troubles.append(effect)
            else:
                assert isinstance(effect, Quit)
                self.has_quit = True
        self.core.check()
        said = [(name, body) for name, body in said if not isinstance(body, ROUTINE)]
        confirming, self.to_confirm = self.to_confirm, []
        for peer in confirming:
            self.deliver(peer, peer.link.wrap(Acknowledgement()))
        return said + self.run() if confirming else said

    def _hear(self, effect: Send) -> list:
        peer = self.peers[effect.peer]
        if peer.name in self.deaf:
            return []
        envelope = codec.decode(codec.encode(effect.envelope))
        body = peer.hears(envelope)
        if isinstance(body, Relay):
            nested = self.peers[body.session]
            inner = nested.hears(codec.decode(list(body.frames)))
            return [] if inner is None else [(nested.name, inner)]
        return [] if body is None else [(peer.name, body)]


# ---- bodies ------------------------------------------------------------------------------------------------------


def attach(
    name: str, slots: int = 1, capabilities: dict[str, int] | None = None, holds: tuple[TaskColumn, ...] = ()
) -> AgentAttach:
    workers = tuple(f"{name}-{index}" for index in range(slots))
    amounts = tuple(Capability(key, amount) for key, amount in (capabilities or {}).items())
    return AgentAttach(name, "host", 1, workers, amounts, holds)


def run(client: Peer, first: int, count: int, attempt: int = 1, function: bytes = FUNCTION, **options) -> TaskRun:
    slots = [[str(first + index).encode()] for index in range(count)]
    return TaskRun(client.session, function, "f", b"", first, attempt, (), TaskOptions(**options), slots)


def tasks(client: Peer, first: int, count: int, attempt: int = 1, function: bytes = FUNCTION, **options) -> Tasks:
    return Tasks([run(client, first, count, attempt, function, **options)])


def definition(function: bytes = FUNCTION) -> FunctionDefinition:
    return FunctionDefinition(function, "f", PICKLES[function], len(PICKLES[function]))


def results(client: Peer, *rows: int | tuple, duration_us: int = 100) -> Results:
    """Rows: a task, or (task, attempt, status, payload)."""
    full = []
    for row in rows:
        task, attempt, status, payload = (
            (row, 1, Status.SUCCESS, b"r")[:4]
            if isinstance(row, int)
            else (*row, *(None, 1, Status.SUCCESS, b"r")[len(row) :])
        )
        full.append((task, attempt, status, payload, duration_us, duration_us, 0))
    return Results([ResultRun(client.session, full)])


def statuses(said: list, client: Peer) -> dict[int, Status]:
    """{task: status} of all results said to a client."""
    found = {}
    for name, body in said:
        if name == client.name and isinstance(body, Results):
            for part in body.runs:
                found.update({row[0]: Status(row[2]) for row in part.rows()})
    return found


def payloads(said: list, client: Peer) -> dict[int, bytes]:
    """{task: payload} of all results said to a client."""
    runs = [part for name, body in said if name == client.name and isinstance(body, Results) for part in body.runs]
    return {row[0]: bytes(row[3]) for part in runs for row in part.rows()}


def handed(said: list, agent: Peer) -> list[tuple[int, int]]:
    """[(task, attempt)] of all tasks said to an agent."""
    return [
        (part.first_task + index, part.attempt)
        for name, body in said
        if name == agent.name and isinstance(body, Tasks)
        for part in body.runs
        for index in range(part.count)
    ]
