"""Carries out one action on the cluster for a monitor, in a connection of its own."""

from __future__ import annotations

import os
import secrets
import selectors
import time
from functools import partial
from pathlib import Path

from scaler_protocol.address import Address
from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, make_hello
from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.keys import files_of_peer, keys_directory, peer_keys
from scaler_protocol.messages import ControlAction, Role
from scaler_protocol.monitor.operation import Action, Operation, OperationOutcome
from scaler_protocol.monitor.operator_session import OperatorSession
from scaler_protocol.transport.context import new_context
from scaler_protocol.transport.dealer_connection import DealerConnection

TIMEOUT_SECONDS = 5.0
_LINGER_MILLISECONDS = 200
_LOOK_SECONDS = 0.1
_NO_KEY_TEXT = (
    "Cannot do this: {directory} has no key that permits it. Copy admin.key there from the host where scaler_keygen "
    "has made the keys{alternative}."
)
_SUBMIT_KEY_TEXT = ", or the submit.key of the client whose tasks these are"
_CANCELLATIONS = (
    ControlAction.CANCEL_CLIENT,
    ControlAction.CANCEL_FUNCTION,
    ControlAction.CANCEL_TASK,
    ControlAction.CANCEL_GRAPH,
)


def operate(
    address: Address, operation: Operation, distribution: str, program: str, keys: Path | None = None
) -> OperationOutcome:
    """Blocks until the scheduler at ``address`` has answered, at most ``TIMEOUT_SECONDS``. Never raises for what a user
    can do wrong. ``distribution``: of the monitor; ``program``: its name; ``keys``: the directory of keys, None for the
    one that $SCALER_KEYS names."""
    obstacle = missing_key(address, operation.action, keys or keys_directory())
    if obstacle:
        return OperationOutcome(False, obstacle)
    session = os.urandom(ID_SIZE_BYTES)
    context = new_context(1)
    try:
        dealer = DealerConnection(context, address, session, partial(peer_keys, role=Role.SUBMIT, directory=keys))
    except (OSError, ValueError) as error:
        context.term()
        return OperationOutcome(False, str(error))
    except RuntimeError as error:  # ZeroMQ needs threads
        context.term()
        return OperationOutcome(False, f"Cannot do this: {lack_of_thread(error)}")
    try:
        handshake = PeerHandshake(dealer.place, secrets.token_bytes(NONCE_SIZE_BYTES))
        hello = make_hello(Role.SUBMIT, session, distribution=distribution, program=program)
        asked = OperatorSession(hello, handshake, operation, time.monotonic() + TIMEOUT_SECONDS)
        return _run(dealer, asked)
    finally:
        dealer.close(_LINGER_MILLISECONDS)
        context.term()


def missing_key(address: Address, action: Action, directory: Path | None) -> str:
    """Return which key suffices for the action, if the directory has none for actions, such as that of a user who only
    watches. Empty: it has one, or none is needed."""
    if directory is None or address.scheme != "tcp" or files_of_peer(directory, Role.SUBMIT)[0].exists():
        return ""
    alternative = _SUBMIT_KEY_TEXT if action in _CANCELLATIONS else ""
    return _NO_KEY_TEXT.format(directory=directory, alternative=alternative)


def _run(dealer: DealerConnection, session: OperatorSession) -> OperationOutcome:
    with selectors.DefaultSelector() as selector:
        for descriptor in (dealer.fd, dealer.monitor_fd):
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            _read(dealer, session)
            if time.monotonic() >= session.deadline:
                session.on_deadline()
            try:
                for effect in session.take_effects():
                    dealer.send(encode(effect.envelope))
            except ValueError as error:  # a number or a name that no message may contain
                return OperationOutcome(False, f"Cannot do this: {error}")
            if session.outcome is not None:
                return session.outcome
            if session.wait_seconds is not None:
                session.deadline, session.wait_seconds = time.monotonic() + session.wait_seconds, None
            selector.select(_LOOK_SECONDS)


def _read(dealer: DealerConnection, session: OperatorSession) -> None:
    for event in dealer.connection_events():
        if event == "connected":
            session.on_connected(dealer.token)
        else:
            session.on_peer_lost()
    session.on_obstacle(dealer.obstacle)
    while (frames := dealer.receive()) is not None:
        try:
            session.on_message(decode(frames))
        except MalformedMessage:
            session.on_obstacle("The scheduler sent data that is not a message.")
