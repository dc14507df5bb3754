"""Sessions of monitors that act on a cluster, and of worker managers, attacked by their scheduler.

Nothing raises, whatever comes when. An action is asked for only behind a Welcome that proves who sent it, and has one
outcome; a manager follows only a scheduler that has proved itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.chance import Chance
from fuzz.choices import Choices
from fuzz.tally import TALLY
from scaler_protocol.codec import encode
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, ServerHandshake, make_hello, place_of, places_of
from scaler_protocol.messages import ControlAction, ControlRequest, Envelope, Hello, Role, Welcome
from scaler_protocol.monitor.operation import Operation
from scaler_protocol.monitor.operator_session import OperatorSession
from scaler_worker.manager.core.scheduler_session import ManagerSession
from tests.simulation.lies import ALL, Lies, Lore

ADDRESS, TOKEN = "tcp://127.0.0.1:2345", b"0" * 64
SEED = b"s" * NONCE_SIZE_BYTES
SESSION = b"a" * 16
STEPS_LIMIT = 64
LONGEST_INPUT_BYTES = 1024


class Attack:
    """The scheduler at the other end knows the token, or does not, and lies."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        chance = Chance(choices)
        self.knows_token = choices.flag()
        self.server = ServerHandshake(TOKEN if self.knows_token else b"1" * 64, SEED, places_of(ADDRESS))
        self.lies = Lies(chance, Lore(), SESSION)
        self.hellos: list[Hello] = []

    def message(self, now: float) -> Envelope:
        if not self.hellos or self.choices.flag(3):
            return Envelope(self.lies.body(ALL), self.choices.below(3))
        hello = self.choices.pick(self.hellos)
        answer = self.server.answer(hello, now)
        if answer is not None:
            return Envelope(answer)
        return Envelope(self.server.prove(hello, Welcome(SESSION, 1, minor=self.choices.below(6), number=hello.number)))

    def take(self, effects: list) -> None:  # type: ignore[type-arg]
        for effect in effects:
            envelope = getattr(effect, "envelope", None)
            if envelope is not None:
                encode(envelope)
                assert TOKEN not in b"".join(encode(envelope))
                assert self.knows_token or not isinstance(envelope.body, ControlRequest), "it believes an impostor"
                if isinstance(envelope.body, Hello):
                    self.hellos.append(envelope.body)


def one_input(data: bytes) -> None:
    choices = Choices(data)
    attack_operator(choices) if choices.flag() else attack_manager(choices)


def attack_operator(choices: Choices) -> None:
    attack, now = Attack(choices), 0.0
    handshake = PeerHandshake(place_of(ADDRESS), SEED)
    action = Operation(choices.pick([*ControlAction]), "target")
    session = OperatorSession(make_hello(Role.SUBMIT, SESSION), handshake, action, 5.0)
    outcome = None
    for _ in range(STEPS_LIMIT):
        if not choices.more:
            break
        now += choices.below(3)
        step = choices.below(8)
        if step == 0:
            session.on_connected(TOKEN)
        elif step == 1:
            session.on_peer_lost()
        elif step == 2:
            session.on_obstacle("no way")
        elif step == 3:
            session.on_deadline()
        else:
            TALLY.count_messages()
            session.on_message(attack.message(now))
        attack.take(session.take_effects())
        assert outcome is None or session.outcome == outcome, "two outcomes"
        outcome = session.outcome


def attack_manager(choices: Choices) -> None:
    attack, now = Attack(choices), 0.0
    session = ManagerSession(make_hello(Role.WORK, SESSION), PeerHandshake(place_of(ADDRESS), SEED), now)
    for _ in range(STEPS_LIMIT):
        if not choices.more:
            break
        now += choices.below(3)
        step = choices.below(8)
        if step == 0:
            session.on_connected(TOKEN, now)
        elif step == 1:
            session.on_peer_lost(now)
        elif step == 2:
            session.report(attack.lies.manager_report(), now)
        elif step == 3:
            session.on_deadline(now)
        else:
            TALLY.count_messages()
            session.on_message(attack.message(now), now)
        attack.take([each for each in session.take_effects() if not is_report(each)])
        assert session.order is None or attack.knows_token, "it follows an impostor"


def is_report(effect: object) -> bool:
    """It holds what the fuzzer chose, which may not be written."""
    envelope = getattr(effect, "envelope", None)
    return envelope is not None and type(envelope.body).__name__ == "ManagerReport"


def seeds() -> Iterator[bytes]:
    for first in (0, 1):
        yield bytes([first, 1, 0, 0, 2, 0, 4, 0, 0, 0, 4, 0, 0, 0, 5, 0, 4, 1, 2, 0, 2, 0, 4, 2, 2, 9, 9, 9])
        yield bytes([first, *range(100)])
