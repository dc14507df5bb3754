"""The nested clients of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.messages import TaskName

if TYPE_CHECKING:
    from scaler_scheduler.core.clients import ClientPeer


class Lineage:
    """Nested clients by the task that they live in, which ``ClientPeer.parent`` names."""

    def __init__(self) -> None:
        self.children: dict[bytes, dict[int, list[ClientPeer]]] = {}
        """The nested clients by session and task; stays the same object."""

    def __bool__(self) -> bool:
        return bool(self.children)

    def add(self, client: ClientPeer, parent: TaskName) -> None:
        client.parent, client.is_nested = parent, True
        self.children.setdefault(parent.session, {}).setdefault(parent.task, []).append(client)

    def remove(self, client: ClientPeer) -> None:
        """Forget the task that a client lives in."""
        parent, client.parent = client.parent, None
        if parent is None:
            return
        tasks = self.children[parent.session]
        tasks[parent.task].remove(client)
        if not tasks[parent.task]:
            del tasks[parent.task]
        if not tasks:
            del self.children[parent.session]

    def check(self, clients: dict[bytes, ClientPeer]) -> None:
        """Assert that clients and the tasks that they live in name one another."""
        nested = {id(client) for client in clients.values() if client.parent is not None}
        listed = []
        for session, tasks in self.children.items():
            for task, found in tasks.items():
                named = [each.parent is not None and each.parent[:2] == (session, task) for each in found]
                assert named and all(named), (session, task)
                listed += [id(each) for each in found]
        assert len(listed) == len(nested) and nested == {*listed}, (len(listed), len(nested))

    def of_task(self, session: bytes, task: int) -> list[ClientPeer]:
        return list(self.children.get(session, {}).get(task, ()))

    def of_client(self, session: bytes) -> list[ClientPeer]:
        return [client for clients in self.children.get(session, {}).values() for client in clients]

    def move_up(self, session: bytes, parent: TaskName | None) -> None:
        """All tasks of this client have ended. The clients that lived in them live in its own parent from now on."""
        for client in self.of_client(session):
            self.remove(client)
            if parent is not None:
                self.add(client, parent)
