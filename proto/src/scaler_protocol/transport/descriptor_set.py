"""One descriptor that stands for several which are added and removed. Linux only."""

from __future__ import annotations

import os
import select


class DescriptorSet:
    """Readable while an event that is watched for is there on one of its descriptors."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._process = os.getpid()

    @property
    def fd(self) -> int:
        return self._epoll.fileno()

    def add(self, fd: int, events: int) -> None:
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Before it is closed. A forked child changes nothing: the set is its parent's as well."""
        if os.getpid() == self._process:
            self._epoll.unregister(fd)

    def close(self) -> None:
        self._epoll.close()
