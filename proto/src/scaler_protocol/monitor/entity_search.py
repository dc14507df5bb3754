"""Finds the page of what a person names."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.monitor import links
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.model import Model

CLIENT_CHARACTERS = 8
"""The beginning of the id of a client that names it."""

CLIENTS_LIMIT = 20
"""Clients whose pages are looked at, since each of these costs a look at all its tasks."""


def find_entity(model: Model, text: str) -> EntityLink | None:
    """``text``: the name of a worker, host, function or group, ``scheduler``, the beginning of the id of a client, or
    that, a slash, and the number of a task or the label of an object. A whole name comes before the beginning of an id.
    None: nothing is known of it."""
    return next((link for link in _candidates(model, text.strip()) if _exists(model, link)), None)


def _exists(model: Model, link: EntityLink) -> bool:
    try:
        return page_of(model, link) is not None
    except ValueError:
        return False


def _candidates(model: Model, text: str) -> Iterator[EntityLink]:
    if not text:
        return
    agents = model.snapshot.agents if model.snapshot is not None else ()
    workers = [(agent.host, worker.name) for agent in agents for worker in agent.workers]
    workers += [(worker.host, worker.name) for worker in model.activity.workers]
    yield from (EntityLink(links.WORKER, (host, name)) for host, name in dict.fromkeys(workers) if name == text)
    yield from (EntityLink(links.HOST, (agent.host,)) for agent in agents if agent.name == text)
    yield EntityLink(links.HOST, (text,))
    yield EntityLink(links.SCHEDULER, (text,))
    yield EntityLink(links.FUNCTION, (text,))
    yield EntityLink(links.GROUP, (text,))
    before, _, after = text.partition("/")
    for client in _clients(model, before.lower())[:CLIENTS_LIMIT]:
        if after:
            yield EntityLink(links.TASK, (client, after))
            yield EntityLink(links.OBJECT, (client, after))
        elif before == text:
            yield EntityLink(links.CLIENT, (client,))


def _clients(model: Model, prefix: str) -> list[str]:
    """The clients whose ids begin so, the present ones first."""
    present = model.snapshot.clients if model.snapshot is not None else ()
    known = [each.session.hex() for each in present]
    known += [each.session.hex() for each in model.activity.sessions.values()]
    found = (session[:CLIENT_CHARACTERS] for session in known if prefix and session.startswith(prefix))
    return list(dict.fromkeys(found))
