"""Messages that wait because the turn of their peer was over before they were taken in."""

from __future__ import annotations

from collections import deque

Message = tuple[bytes, list[bytes], bytes]
"""A peer, the frames that it has sent, and the user of the key that its connection showed."""


class Backlog:
    """The peers that wait for another turn, the one that has waited longest first, with their messages in order."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, deque[Message]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, peer: bytes) -> bool:
        return peer in self._waiting

    def add(self, message: Message) -> None:
        """The message comes after all others of its peer."""
        self._waiting.setdefault(message[0], deque()).append(message)

    def take_first(self) -> tuple[bytes, deque[Message]]:
        """Remove and return the peer whose turn it is, with its messages."""
        peer = next(iter(self._waiting))
        return peer, self._waiting.pop(peer)

    def put_last(self, peer: bytes, messages: deque[Message]) -> None:
        """The turn of this peer is over again: these messages are left."""
        self._waiting[peer] = messages
