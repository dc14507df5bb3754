"""Clients whose sessions have ended, with what they have used: the latest ones each, all earlier ones together.
Clients that had no task, such as monitors that act on the cluster, are left out.

Clients inside tasks are counted together at once: there may be as many as tasks, and their running time is that of
their root client.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from scaler_protocol.keys import name_of_user
from scaler_protocol.monitor.messages import EndedClientStatus
from scaler_scheduler.core.clients import ClientPeer

CLIENT_LIMIT = 100


class EndedClients:
    """The clients that have ended since the scheduler started."""

    def __init__(self) -> None:
        self._latest: deque[EndedClientStatus] = deque()
        self._earlier = EndedClientStatus(count=0)

    def add(self, client: ClientPeer) -> None:
        table = client.table
        if not table.columns.finished:
            return
        ended = EndedClientStatus(
            session=client.shown_id,
            host=client.hello.host,
            pid=client.hello.pid,
            group=table.columns.share.group.name,
            finished=table.columns.finished,
            used_seconds=0.0 if client.is_nested else table.columns.share.used_us / 1e6,
            failed=table.columns.failed,
            canceled=table.columns.canceled,
            user=client.hello.user,
            key_name=name_of_user(client.user),
            program=client.hello.program,
        )
        if client.is_nested:
            self._fold(ended)
            return
        self._latest.append(ended)
        if len(self._latest) > CLIENT_LIMIT:
            self._fold(self._latest.popleft())

    def rows(self) -> tuple[EndedClientStatus, ...]:
        """Return the rows, latest first. A row without a session stands for several clients."""
        earlier = (self._earlier,) if self._earlier.count else ()
        return (*reversed(self._latest), *earlier)

    def _fold(self, ended: EndedClientStatus) -> None:
        earlier = self._earlier
        self._earlier = replace(
            earlier,
            finished=earlier.finished + ended.finished,
            used_seconds=earlier.used_seconds + ended.used_seconds,
            count=earlier.count + 1,
            failed=earlier.failed + ended.failed,
            canceled=earlier.canceled + ended.canceled,
        )
