"""Hello: what a peer says first, and whether it is welcome."""

from __future__ import annotations

import hmac
import os
import platform
import socket
import sys

from scaler_protocol.address import Address, parse_address
from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.keys import may_act_as, role_of_user
from scaler_protocol.messages import PROTOCOL_MAJOR, PROTOCOL_MINOR, Hello, RefusalReason, Refused, Role
from scaler_protocol.security import read_token


def make_hello(
    role: Role,
    session: bytes,
    *,
    address: Address | str | None = None,
    token: bytes | None = None,
    distribution: str = "scaler-protocol",
    distribution_version: str = "",
    epoch: int = 0,
    received: int = 0,
    features: tuple[str, ...] = (),
    parent_session: bytes = b"",
    parent_task: int = 0,
    parent_attempt: int = 0,
    parent_depth: int = 0,
) -> Hello:
    """Fills in versions, host, pid and, unless given, this user's token. When ``address`` names another machine the
    token stays here: it would tell that machine how to enter this one."""
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
        token=_token_for(address) if token is None else token,
        features=features,
        parent_session=parent_session,
        parent_task=parent_task,
        parent_attempt=parent_attempt,
        parent_depth=parent_depth,
    )


def refusal_for(hello: Hello, *, address: Address | str, token: bytes, user: bytes = b"") -> Refused | None:
    """Why a scheduler that listens on ``address`` and knows ``token`` refuses ``hello``; None: it is welcome. ``user``:
    whose key the connection showed; empty: the scheduler has none."""
    parsed = parse_address(address) if isinstance(address, str) else address
    if hello.major != PROTOCOL_MAJOR:
        return Refused(RefusalReason.VERSION, _version_text(hello))
    if len(hello.session) != ID_SIZE_BYTES:
        return Refused(RefusalReason.MALFORMED, f"A session has {ID_SIZE_BYTES} bytes, not {len(hello.session)}.")
    if parsed.is_local and parsed.scheme != "inproc" and not hmac.compare_digest(hello.token, token):
        return Refused(RefusalReason.TOKEN, _token_text(hello))
    if user and not may_act_as(role_of_user(user), hello.role):
        return Refused(RefusalReason.ROLE, _role_text(hello.role, user))
    return None


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


def _token_for(address: Address | str | None) -> bytes:
    parsed = parse_address(address) if isinstance(address, str) else address
    return read_token() if parsed is None or parsed.is_local else b""


def _version_text(hello: Hello) -> str:
    return (
        f"The scheduler speaks protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}, this peer "
        f"{hello.major}.{hello.minor}: install the same major version of scaler on both."
    )


def _role_text(wanted: Role, user: bytes) -> str:
    role, name = role_of_user(user), wanted.name.lower()
    if role is None:
        return (
            "The scheduler does not know this peer's key: copy its public half into the scheduler's folder of keys, "
            f"as {name}.pub or {name}-NAME.pub."
        )
    return (
        f"This peer's key may {role.name.lower()}, not {name}: "
        f"it needs {name}.key or admin.key of the scheduler's set in its folder of keys."
    )


def _token_text(hello: Hello) -> str:
    if not hello.token:
        return (
            "The scheduler runs as another user, or with another SCALER_HOME, than this peer, which has no token: "
            "run both as one user with one SCALER_HOME."
        )
    return "The token is not the scheduler's: run both as one user with one SCALER_HOME."
