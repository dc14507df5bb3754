"""Profiles: a client has the agents sample where tasks are, and gets the samples of all of them.

| Event | Consequence |
|---|---|
| a client begins a profile | all agents are asked, and again every ten seconds; agents that join, too |
| the client ends it | the agents are asked for their samples |
| an agent answers | the client gets the answer, with the number of those that are still to come |
| an answer does not come in time | the client learns that no more come |
| the client's session ends | the agents end the profile |

An operator profiles the tasks of all clients; with keys, others profile their own. The scheduler does not read
profiles.
"""

from __future__ import annotations

from scaler_protocol.messages import CONTROL_SINCE_MINOR, ProfileReply, ProfileRequest
from scaler_protocol.profile import DATA_LIMIT_BYTES
from scaler_scheduler.core import admission, notices, outbox
from scaler_scheduler.core.action_rates import TOO_MANY_TEXT
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.profile_table import RunningProfile
from scaler_scheduler.core.state import SchedulerState

PROFILES_LIMIT, CLIENT_LIMIT = 20, 4
"""Maximum numbers of profiles at a time: of all clients, and of one."""

LEAST_INTERVAL_US = 1_000
RENEW_SECONDS = 10.0
ANSWER_SECONDS = 5.0

_ALL_CLIENTS = bytes(16)
_FULL_TEXT = "Cannot begin a profile: {limit} profiles are under way. End one of them, or try again later."
_OWN_TEXT = f"Cannot begin a profile: this client has {CLIENT_LIMIT} under way. End one of them."
_TWICE_TEXT = "Cannot begin a profile: this client has one with this number."
_UNKNOWN_TEXT = "Cannot end the profile: it has not begun, or the scheduler has restarted since."
_SHORT_TEXT = "Cannot begin a profile: the interval is shorter than a millisecond. Choose a longer one."


def on_request(state: SchedulerState, client: ClientPeer, body: ProfileRequest, now: float) -> None:
    """Begin or end a profile for a client."""
    known = state.profiles.find(client.session, body.number)
    if not body.interval_us:
        _end(state, client, body.number, known, now)
        return
    refusal = _refusal(state, client, body, known, now)
    if refusal:
        outbox.send(state, client, ProfileReply(body.number, False, refusal), now)
        return
    session = _ALL_CLIENTS if admission.is_operator(state, client) else client.session
    state.profiles.last_number += 1
    number = state.profiles.last_number
    profile = RunningProfile(number, client.session, body.number, session, body.interval_us)
    state.profiles.running[number] = profile
    notices.log(state, f"Client {client.session.hex()[:8]} begins a profile")
    _ask(state, profile, now)
    outbox.send(state, client, ProfileReply(body.number, True), now)


def on_reply(state: SchedulerState, agent: Agent, body: ProfileReply, now: float) -> None:
    """Pass on the samples of an agent."""
    profile = state.profiles.running.get(body.number)
    if profile is None or profile.awaited is None or agent.session not in profile.awaited:
        return
    profile.awaited.discard(agent.session)
    data = body.profile if body.accepted and len(body.profile) <= DATA_LIMIT_BYTES else b""
    _answer(state, profile, data, now)


def on_tick(state: SchedulerState, now: float) -> None:
    """Ask agents again, and give up those that do not answer, and profiles whose client has left."""
    for profile in list(state.profiles.running.values()):
        if profile.client not in state.clients:
            _forget(state, profile, now)
        elif profile.awaited is None:
            _ask(state, profile, now)
        elif now >= profile.deadline:
            profile.awaited.clear()
            _answer(state, profile, b"", now)


def _refusal(
    state: SchedulerState, client: ClientPeer, body: ProfileRequest, known: RunningProfile | None, now: float
) -> str:
    """Return why a client cannot begin a profile; empty: it can."""
    if not state.action_rates.permits(client.session, now):
        return f"Cannot begin a profile: {TOO_MANY_TEXT}"
    if known is not None:
        return _TWICE_TEXT
    if body.interval_us < LEAST_INTERVAL_US:
        return _SHORT_TEXT
    if state.profiles.count_of(client.session) >= CLIENT_LIMIT:
        return _OWN_TEXT
    return _FULL_TEXT.format(limit=PROFILES_LIMIT) if len(state.profiles.running) >= PROFILES_LIMIT else ""


def _ask(state: SchedulerState, profile: RunningProfile, now: float) -> None:
    """Ask the agents that have not been asked, or all of them again after a while."""
    is_due = now >= profile.renew_at
    if is_due:
        profile.renew_at = now + RENEW_SECONDS
    for agent in state.agents.values():
        if (
            agent.attached
            and agent.hello.minor >= CONTROL_SINCE_MINOR
            and (is_due or agent.session not in profile.asked)
        ):
            profile.asked.add(agent.session)
            outbox.send(state, agent, ProfileRequest(profile.number, profile.session, profile.interval_us), now)


def _end(state: SchedulerState, client: ClientPeer, number: int, profile: RunningProfile | None, now: float) -> None:
    if profile is None:
        outbox.send(state, client, ProfileReply(number, False, _UNKNOWN_TEXT), now)
        return
    profile.awaited = _tell_end(state, profile, now)
    profile.deadline = now + ANSWER_SECONDS
    if not profile.awaited:
        _answer(state, profile, b"", now)


def _tell_end(state: SchedulerState, profile: RunningProfile, now: float) -> set[bytes]:
    """Have the agents end the profile. Returns their sessions."""
    agents = [agent for agent in state.agents.values() if agent.attached and agent.session in profile.asked]
    for agent in agents:
        outbox.send(state, agent, ProfileRequest(profile.number, profile.session, 0), now)
    return {agent.session for agent in agents}


def _answer(state: SchedulerState, profile: RunningProfile, data: bytes, now: float) -> None:
    remaining = len(profile.awaited or ())
    if not remaining:
        del state.profiles.running[profile.number]
    client = state.clients.get(profile.client)
    if client is not None:
        outbox.send(state, client, ProfileReply(profile.client_number, True, "", remaining, data), now)


def _forget(state: SchedulerState, profile: RunningProfile, now: float) -> None:
    del state.profiles.running[profile.number]
    if profile.awaited is None:
        _tell_end(state, profile, now)
