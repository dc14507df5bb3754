"""What follows when handling something raises: one peer pays, the others do not notice.

A message that raises costs its sender the session. What raises for a peer that is only told something costs that peer
its link: it is asked to say Hello again, and begins anew. Either way counts are verified, since whatever was under way
stopped in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scaler_protocol.messages import WhoAreYou
from scaler_scheduler.core import audit
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.effects import Trouble

if TYPE_CHECKING:
    from scaler_scheduler.core.endings import Endings
    from scaler_scheduler.core.from_agents import FromAgents
    from scaler_scheduler.core.scheduler import SchedulerCore


def on_message(core: SchedulerCore, peer: bytes, kind: str, error: Exception, now: float) -> None:
    """A message of ``peer`` could not be taken in."""
    core._effects.append(Trouble(f"{kind} from {peer.hex()[:8]} could not be taken in", error))
    _end(core, peer, lambda: core.on_malformed(peer, f"{kind} cannot be taken in.", now), now)


def on_nested_message(core: FromAgents, agent: Agent, session: bytes, kind: str, error: Exception, now: float) -> None:
    """The same, of a client that an agent relays: the agent is not to blame."""
    core._effects.append(Trouble(f"{kind} from {session.hex()[:8]} could not be taken in", error))
    _end(core, session, lambda: core._refuse_nested(agent, session, f"{kind} cannot be taken in.", now), now)


def on_receiver(core: Endings, peer: Client | Agent, error: Exception, now: float) -> None:
    """What ``peer`` is to be told, or is due for it, could not be worked out or sent."""
    core._effects.append(Trouble(f"{peer.session.hex()[:8]} has to begin anew", error))
    _end(core, peer.session, lambda: core._end_peer(peer.session, now), now)
    core._answer(peer.session, peer.route, WhoAreYou(), now)


def _end(core: Endings, session: bytes, end: Callable[[], None], now: float) -> None:
    try:
        end()
    except Exception as error:
        core._effects.append(Trouble(f"{session.hex()[:8]} could not be ended", error))
        _remove(core, session)
    audit.after_fault(core, now)


def _remove(core: Endings, session: bytes) -> None:
    """Not even its end can be worked out: it is not there any more."""
    agent = core.agents.pop(session, None)
    if agent is not None:
        core.agent_by_index.pop(agent.index, None)
        core.allocator.remove(agent)
    core.clients.pop(session, None)
    for waiting in (core._touched, core._owing, core._waiting, core._graph_clients):
        waiting.pop(session, None)
