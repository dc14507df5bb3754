"""The store from which each host fetches an object that many hosts need.

A store that has the object serves one other store before all. The next host fetches from that one while it is itself
fetching, and so on: a chain, in which each link carries the object once and all at the same time. A chain is not longer
than ``CHAIN_LIMIT``, and does not go through hosts whose last transfer was slow. Where no chain can be continued,
stores that have the object serve further readers, up to ``READERS_PER_STORE``; the others wait for their turn.

No store waits for itself: the sources of a chain never lead to the host that is to join it."""

from __future__ import annotations

from collections.abc import Container, Mapping

from scaler_scheduler.core.stored_objects import StoredObject

READERS_PER_STORE = 2
"""Number of stores that fetch an object from one store at a time."""

CHAIN_BYTES = 8 * 1024 * 1024
"""A smaller object is there before the next host has connected."""

CHAIN_LIMIT = 16
"""The stores in a chain, with the one that has the object."""

PUSH_BYTES = 1024 * 1024
"""Smaller objects in a store of their owner's host that others cannot reach come through the scheduler."""


def source_for(
    stored: StoredObject, agent: bytes, endpoints: Mapping[bytes, str], slow: Container[bytes]
) -> bytes | None:
    """The store, or the agent whose store is fetching, from which the store of ``agent`` fetches now. None: it waits.
    ``endpoints``: where stores can be reached, by store and by agent. ``slow``: agents that take long to receive."""
    users = list(stored.fetching.values())
    readers = {store: users.count(store) for store in usable_stores(stored, agent, endpoints)}
    free = [store for store, count in readers.items() if count < READERS_PER_STORE]
    if not all(readers.values()):
        free = [store for store in free if not readers[store]]
    elif (last := _end_of_chain(stored, agent, endpoints, slow)) is not None:
        return last
    return min(free, key=lambda store: (readers[store], not endpoints.get(store)), default=None)


def usable_stores(stored: StoredObject, agent: bytes, endpoints: Mapping[bytes, str]) -> list[bytes]:
    """The stores that have an object and that an agent's store can fetch it from, and the owner's own if the owner can
    push it from there: a store without an agent has no endpoint."""
    is_pushable = bool(endpoints.get(agent)) and bool(stored.owners) and stored.size >= PUSH_BYTES
    return [store for store in stored.stores if endpoints.get(store) or (is_pushable and store == stored.home)]


def _end_of_chain(
    stored: StoredObject, agent: bytes, endpoints: Mapping[bytes, str], slow: Container[bytes]
) -> bytes | None:
    """An agent whose store is fetching and serves no other yet: the last of the shortest chain."""
    if stored.size < CHAIN_BYTES:
        return None
    sources = set(stored.fetching.values())
    chains = [
        (len(chain), each)
        for each in stored.fetching
        if each not in sources and endpoints.get(each)
        for chain in [_chain_to(stored, each)]
        if len(chain) <= CHAIN_LIMIT
        and not any(link in slow or endpoints.get(link) == endpoints.get(agent) for link in chain)
    ]
    return min(chains, default=(0, None))[1]


def _chain_to(stored: StoredObject, agent: bytes) -> list[bytes]:
    """``agent``, the agents through which the object comes to it, and the store or agent where the chain begins."""
    chain = [agent]
    while (source := stored.fetching.get(chain[-1])) is not None and source not in chain:
        chain.append(source)
    return chain
