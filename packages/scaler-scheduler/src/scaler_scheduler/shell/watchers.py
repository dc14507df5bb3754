"""The publisher's watchers, whichever way they connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from scaler_protocol.monitor import feed

QUEUE_LIMIT = 64
"""Messages, of at most half a MiB or one snapshot each, kept for one slow watcher; beyond, it misses some. Each
snapshot is complete, so the next one is enough."""

TOPICS_LIMIT = 100
"""Topics, besides those that every watcher subscribes to, that one connection may ask for."""

TOPIC_LIMIT_BYTES = 1024
"""Maximum size of anything that a watcher sends."""

WATCHERS_LIMIT = 256
"""Connections at a time."""

SUBSCRIBE_SECONDS = 10.0
"""A connection that has not asked for anything by then is closed."""

TOO_MANY_TOPICS = f"A watcher that subscribed to more than {TOPICS_LIMIT} topics was disconnected."
TOO_MANY_WATCHERS = f"{WATCHERS_LIMIT} monitors are connected: further ones are turned away."


class WatchRequest(NamedTuple):
    """A watcher subscribes to a topic. ``watcher`` is for ``reply``."""

    watcher: Any
    topic: bytes


class Watchers(Protocol):
    """``socket`` is for a ``zmq.Poller``."""

    socket: Any

    @property
    def look_milliseconds(self) -> int | None:
        """Milliseconds until ``look`` must be called; None: it need not be."""

    def take(self) -> list[WatchRequest]:
        """The requests made since the last call."""

    def wants(self, kind: bytes) -> bool:
        """Return whether any watcher has subscribed to messages of this kind."""

    def publish(self, kind: bytes, payload: bytes) -> None:
        """Send a message to all that have subscribed to this kind."""

    def reply(self, watcher: Any, topic: bytes, payload: bytes) -> None:
        """Send a reply to this watcher, if it is still connected."""

    def look(self, now: float) -> None:
        """Close connections that take nothing in, ask for nothing, or have no right to be there any more."""

    def close(self) -> None: ...


Complain = Callable[[str], object]
"""Takes a sentence for the scheduler's log."""


def is_useful(topic: bytes) -> bool:
    """Return whether anything is published under it."""
    return feed.SNAPSHOT_KIND.startswith(topic) or feed.EVENTS_KIND.startswith(topic)
