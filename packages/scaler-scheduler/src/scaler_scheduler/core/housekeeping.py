"""Acknowledgements, releases and cancels, collected into few messages."""

from __future__ import annotations

from scaler_protocol.messages import Acknowledgement, Cancel, ResultsReleased
from scaler_scheduler.core import faults, outbox
from scaler_scheduler.core.agents import Agent, agents_to_answer
from scaler_scheduler.core.dispatch import in_messages
from scaler_scheduler.core.settings import CLIENT_ACKNOWLEDGEMENT_SECONDS
from scaler_scheduler.core.state import SchedulerState

RELEASES_PER_MESSAGE = 50_000


def keep_house(state: SchedulerState, now: float) -> None:
    """Send agents what can wait a little: acknowledgements and releases of results."""
    state.housekeeping_at = None
    faults.for_each(state, agents_to_answer(state.agents), _keep_house_of, now)


def _keep_house_of(state: SchedulerState, agent: Agent, now: float) -> None:
    """An acknowledgement is not needed when another message carries it."""
    if agent.releases:
        sequences, agent.releases = agent.releases, []
        for start in range(0, len(sequences), RELEASES_PER_MESSAGE):
            outbox.send(state, agent, ResultsReleased(tuple(sequences[start : start + RELEASES_PER_MESSAGE])), now)
    elif agent.link.owes_acknowledgement:
        outbox.send(state, agent, Acknowledgement(), now)


def send_cancels(state: SchedulerState, now: float) -> None:
    """Send agents the cancels that this turn has collected."""
    agents = list(state.agents_with_cancels.values())
    state.agents_with_cancels.clear()
    faults.for_each(state, agents, _send_cancels_to, now)


def _send_cancels_to(state: SchedulerState, agent: Agent, now: float) -> None:
    """Send one agent its cancels, in as many messages as they need."""
    cancels, agent.cancels = agent.cancels, {}
    for columns in in_messages(cancels):
        outbox.send(state, agent, Cancel(columns), now)


def acknowledge_clients(state: SchedulerState, now: float) -> None:
    """A client with an open batch waits for this; most often a result carries the acknowledgement within the delay."""
    state.acknowledge_at = None
    for client in list(state.clients_to_acknowledge.values()):
        due = client.owing_since + CLIENT_ACKNOWLEDGEMENT_SECONDS
        if now < due:
            state.acknowledge_at = due
            return
        del state.clients_to_acknowledge[client.session]
        if client.link.owes_acknowledgement:
            outbox.acknowledge(state, client, now)
