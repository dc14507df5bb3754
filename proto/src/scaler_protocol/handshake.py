"""Hello: the first message of a peer, the decision about it, and the proofs by which both ends authenticate.

On addresses of this machine peers of one user share a token, which is never sent. Each end proves that it knows the
token by an HMAC over fresh nonces of both:

    peer       hello{nonce}
    scheduler  challenge{nonce}
    peer       hello{nonce, challenge, proof}
    scheduler  welcome{proof}

Both HMACs cover the address, so a process that listens elsewhere cannot pass the messages on to the scheduler and back.
The scheduler keeps nothing of a peer in between: its nonce is made of the peer's nonce, the time and a secret. It
keeps the challenges that were answered, so that recorded messages cannot be repeated. A peer acts on no message of the
scheduler before it has verified the Welcome.

The same is done with an object store of this host, and between stores with the ticket of the one that serves.
"""

from __future__ import annotations

import dataclasses
import functools
import hmac
import ipaddress
import os
import platform
import socket
import sys
from typing import Literal

from scaler_protocol.address import Address, parse_address
from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.keys import may_act_as, role_of_user
from scaler_protocol.messages import (
    PROTOCOL_MAJOR,
    PROTOCOL_MINOR,
    Challenge,
    Hello,
    RefusalReason,
    Refused,
    Role,
    Welcome,
)

NONCE_SIZE_BYTES = 32
WINDOW_SECONDS = 10.0
"""A challenge can be answered during the window in which it was made, and the next one."""

_TIME_SIZE_BYTES = 8
_ANSWERS_LIMIT = 3
"""Maximum number of answers to one Hello: a challenge may have become too old on its way, and is then replaced."""

_PEER_LABEL = b"scaler peer 1"
_SCHEDULER_LABEL = b"scaler scheduler 1"
_PEER_NONCE_LABEL = b"scaler peer nonce 1"
_SCHEDULER_NONCE_LABEL = b"scaler scheduler nonce 1"

Verdict = Literal["genuine", "late", "forged"]


def make_hello(
    role: Role,
    session: bytes,
    *,
    distribution: str = "scaler-protocol",
    distribution_version: str = "",
    epoch: int = 0,
    received: int = 0,
    features: tuple[str, ...] = (),
    parent_session: bytes = b"",
    parent_task: int = 0,
    parent_attempt: int = 0,
    parent_depth: int = 0,
    group: str = "",
    weight: float = 0.0,
    user: str = "",
    program: str = "",
) -> Hello:
    """Fills in versions, host and pid."""
    return Hello(
        role=role,
        session=session,
        epoch=epoch,
        received=received,
        distribution=distribution,
        distribution_version=distribution_version or installed_version(distribution),
        python_version=platform.python_version(),
        host=socket.gethostname(),
        pid=os.getpid(),
        features=features,
        parent_session=parent_session,
        parent_task=parent_task,
        parent_attempt=parent_attempt,
        parent_depth=parent_depth,
        group=group,
        weight=weight,
        user=user,
        program=program,
    )


def refusal_for(hello: Hello, user: bytes = b"") -> Refused | None:
    """Return why ``hello`` is refused, whatever it may prove; None: it is not. ``user``: whose key the connection
    showed; empty: there are no keys."""
    if hello.major != PROTOCOL_MAJOR:
        return Refused(RefusalReason.VERSION, _version_text(hello))
    if len(hello.session) != ID_SIZE_BYTES:
        return Refused(RefusalReason.MALFORMED, f"A session has {ID_SIZE_BYTES} bytes, not {len(hello.session)}.")
    if user and not may_act_as(role_of_user(user), hello.role):
        return Refused(RefusalReason.ROLE, _role_text(hello.role, user))
    return None


# ---- addresses -------------------------------------------------------------------------------------------------------


def place_of(address: Address | str) -> str:
    """The name of an address in the proofs of both ends. A path may differ in a container, so it does not count;
    empty: nothing is proved within one process."""
    parsed = parse_address(address) if isinstance(address, str) else address
    if parsed.scheme != "tcp":
        return "ipc" if parsed.scheme == "ipc" else ""
    host = "127.0.0.1" if parsed.host == "localhost" else parsed.host
    try:
        host = ipaddress.ip_address(host).compressed
    except ValueError:
        pass  # a name
    return str(Address("tcp", host, parsed.port))


def places_of(address: Address | str) -> tuple[str, ...]:
    """The names that peers of this machine may use for the address at which a scheduler listens."""
    parsed = parse_address(address) if isinstance(address, str) else address
    if parsed.is_local:
        return (place_of(parsed),)
    return tuple(place_of(Address("tcp", host, parsed.port)) for host in ("127.0.0.1", "::1"))


# ---- the peer's end --------------------------------------------------------------------------------------------------


class PeerHandshake:
    """A peer's end, over all its connections. ``place``: what both ends call the address; empty: nothing is proved,
    because keys, the agent's connection or the process protect it, or nothing does. ``seed``: 32 random bytes, of which
    the nonces are made. ``token`` may be set before each Hello."""

    def __init__(self, place: str = "", seed: bytes = b"", token: bytes = b"") -> None:
        if place and len(seed) != NONCE_SIZE_BYTES:
            raise ValueError(f"A seed has {NONCE_SIZE_BYTES} bytes, not {len(seed)}.")
        self.token = token
        self._place = place
        self._seed = seed
        self._said: Hello | None = None
        self._count = 0
        self._answers = 0

    @property
    def forged_text(self) -> str:
        """The reason why a forged Welcome is not believed."""
        return (
            f"Cannot trust the process that listens at {self._place}: it did not prove that it knows this user's token."
            " Run the scheduler as this user and with the same SCALER_HOME, and forward a port to the same number."
        )

    def begin(self, hello: Hello) -> Hello:
        """A new Hello: numbered, and with a new nonce."""
        self._count += 1
        self._answers = 0
        nonce = b""
        if self._place:
            nonce = _hmac(self._seed, _PEER_NONCE_LABEL, _number(self._count))
        self._said = dataclasses.replace(hello, number=self._count, nonce=nonce, challenge=b"", proof=b"")
        return self._said

    def answer(self, challenge: Challenge) -> Hello | None:
        """The last Hello again, with the proof; None if this is not a challenge, or answers an earlier Hello."""
        said = self._said
        if said is None or not said.nonce or challenge.number != said.number or self._answers >= _ANSWERS_LIMIT:
            return None
        if len(challenge.nonce) != NONCE_SIZE_BYTES or not self.token:
            return None
        self._answers += 1
        asked = dataclasses.replace(said, challenge=challenge.nonce)
        self._said = dataclasses.replace(asked, proof=_peer_proof(self.token, self._place, asked))
        return self._said

    def judge(self, welcome: Welcome) -> Verdict:
        """Return whether the scheduler may be believed. ``late``: the Welcome answers an earlier Hello; another answer
        is on its way."""
        said = self._said
        if said is None or welcome.number != said.number:
            return "late"
        if not self._place:
            return "genuine"
        if not self.token or not said.challenge:
            return "forged"
        expected = _scheduler_proof(self.token, self._place, said, welcome)
        return "genuine" if hmac.compare_digest(expected, welcome.proof) else "forged"


# ---- the end that listens --------------------------------------------------------------------------------------------


class AnsweredChallenges:
    """The challenges that peers have answered with a valid proof, as long as the proof could be shown again."""

    def __init__(self) -> None:
        self._by_window: dict[int, set[bytes]] = {}

    def add(self, challenge: bytes, window: int) -> bool:
        """Return whether it had not been answered before. ``window``: that of now."""
        self._by_window = {each: found for each, found in self._by_window.items() if each >= window - 1}
        if any(challenge in found for found in self._by_window.values()):
            return False
        self._by_window.setdefault(window, set()).add(challenge)
        return True


@dataclasses.dataclass(frozen=True, slots=True)
class ServerHandshake:
    """The end that listens: a scheduler's, or a store's. ``seed``: random bytes, new with each start. ``places``: what
    peers may call the address. ``is_required``: a peer without a proof is refused; otherwise a proof is given
    to each peer that asks for one. ``answered``: belongs to the seed."""

    token: bytes
    seed: bytes
    places: tuple[str, ...]
    is_required: bool = True
    answered: AnsweredChallenges = dataclasses.field(default_factory=AnsweredChallenges, compare=False)

    def __post_init__(self) -> None:
        if len(self.seed) != NONCE_SIZE_BYTES:
            raise ValueError(f"A seed has {NONCE_SIZE_BYTES} bytes, not {len(self.seed)}.")
        if self.is_required and not self.token:
            raise ValueError("A proof requires a token.")

    def answer(self, hello: Hello, now: float) -> Challenge | Refused | None:
        """The answer to ``hello``; None if its proof is valid and it may be welcomed, which is so only once."""
        if not hello.nonce:
            return Refused(RefusalReason.TOKEN, _no_proof_text(hello)) if self.is_required else None
        if len(hello.nonce) != NONCE_SIZE_BYTES:
            return Refused(RefusalReason.MALFORMED, f"A nonce has {NONCE_SIZE_BYTES} bytes, not {len(hello.nonce)}.")
        if not self.token:
            return Refused(RefusalReason.TOKEN, _NO_TOKEN_TEXT)
        if not self._is_fresh(hello, now):
            return Challenge(self._nonce(hello, _window(now)), hello.number)
        if self._place(hello) is None:
            return Refused(RefusalReason.TOKEN, _WRONG_PROOF_TEXT)
        if not self.answered.add(hello.challenge, _window(now)):
            return Challenge(self._nonce(hello, _window(now)), hello.number)
        return None

    def prove(self, hello: Hello, welcome: Welcome) -> Welcome:
        """The Welcome for a peer that ``answer`` let pass, with the scheduler's own proof if it is asked for."""
        place = self._place(hello) if hello.nonce else None
        if place is None:
            return welcome
        return dataclasses.replace(welcome, proof=_scheduler_proof(self.token, place, hello, welcome))

    def _nonce(self, hello: Hello, window: int) -> bytes:
        time = _number(window)
        made = _hmac(self.seed, _SCHEDULER_NONCE_LABEL, hello.session, hello.nonce, time)
        return time + made[: NONCE_SIZE_BYTES - len(time)]

    def _is_fresh(self, hello: Hello, now: float) -> bool:
        """Return whether it answers a challenge made here for it, not long ago."""
        window = int.from_bytes(hello.challenge[:_TIME_SIZE_BYTES], "little")
        if window not in (_window(now), _window(now) - 1):
            return False
        return hmac.compare_digest(hello.challenge, self._nonce(hello, window))

    def _place(self, hello: Hello) -> str | None:
        """The peer's name for this address; None: it does not know the token, or means another address."""
        for place in self.places:
            if hmac.compare_digest(hello.proof, _peer_proof(self.token, place, hello)):
                return place
        return None


# ---- proofs ----------------------------------------------------------------------------------------------------------


def _peer_proof(token: bytes, place: str, hello: Hello) -> bytes:
    return _hmac(token, _PEER_LABEL, *_transcript(place, hello))


def _scheduler_proof(token: bytes, place: str, hello: Hello, welcome: Welcome) -> bytes:
    """It covers all fields of version 1.2, in the order of their numbers."""
    return _hmac(
        token,
        _SCHEDULER_LABEL,
        *_transcript(place, hello),
        welcome.session,
        *map(_number, (welcome.epoch, welcome.received, welcome.resumed, welcome.protected)),
        *map(_number, (welcome.major, welcome.minor)),
        welcome.distribution_version.encode(),
        welcome.python_version.encode(),
        _number(len(welcome.features)),
        *(feature.encode() for feature in welcome.features),
        _number(welcome.number),
        welcome.cluster,
    )


def _transcript(place: str, hello: Hello) -> tuple[bytes, ...]:
    numbers = _number(hello.role), _number(hello.number)
    return (place.encode(), hello.session, *numbers, hello.nonce, hello.challenge)


def _hmac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 of the parts, each behind its length."""
    data = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    return hmac.digest(key, data, "sha256")


def _number(number: int) -> bytes:
    return int(number).to_bytes(8, "little")


def _window(now: float) -> int:
    return int(now // WINDOW_SECONDS)


# ---- words -----------------------------------------------------------------------------------------------------------


@functools.cache
def installed_version(distribution: str) -> str:
    """The version of an installed distribution; empty when it is used from a source tree. Reads names of folders only:
    to import ``importlib.metadata`` would take longer than all the rest of a Hello."""
    before, after = distribution.replace("-", "_") + "-", ".dist-info"
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith(before) and name.endswith(after):
                return name[len(before) : -len(after)]
    return ""


_NO_TOKEN_TEXT = (
    "The scheduler has no token, so it cannot send the proof that this peer requests. "
    "Connect to the address of its network instead."
)
_WRONG_PROOF_TEXT = (
    "The token of this peer differs from the scheduler's, or the peer uses another address. Run both as one user with"
    " one SCALER_HOME, and forward a port to the same number."
)


def _version_text(hello: Hello) -> str:
    return (
        f"The scheduler uses protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}, this peer "
        f"{hello.major}.{hello.minor}. Install the same major version of scaler on both."
    )


def _role_text(wanted: Role, user: bytes) -> str:
    role, name = role_of_user(user), wanted.name.lower()
    if role is None:
        return "The scheduler does not know this peer's key, or it has expired. Ask its operator for another."
    return (
        f"This peer's key may {role.name.lower()}, not {name}: "
        f"it needs {name}.key or admin.key of the scheduler's set in its directory of keys."
    )


def _no_proof_text(hello: Hello) -> str:
    if hello.token or (hello.major, hello.minor) < (1, 2):
        return (
            f"This peer uses protocol {hello.major}.{hello.minor}, which sends the user's token instead of a"
            " proof. Upgrade it to the version of the scheduler."
        )
    return "This peer has not requested a proof, which is required on the scheduler's machine. Upgrade it."
