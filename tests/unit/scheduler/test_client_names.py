"""The user and the program of a client in snapshots: as it says, with the name of its key."""

from __future__ import annotations

from scaler_protocol.messages import Goodbye, Tasks
from tests.unit.scheduler.playbook import Playbook, definition, run


def test_they_are_shown_while_the_client_is_there_and_afterwards() -> None:
    book = Playbook()
    client = book.client(user="ann", program="train.py")
    book.core.state.clients[client.session].user = b"submit:bob:key"
    (shown,) = book.core.snapshot(book.now).clients
    assert (shown.user, shown.key_name, shown.program) == ("ann", "bob", "train.py")
    client.says(Tasks([run(client, 1, 1)], [definition()]))
    client.says(Goodbye())
    (ended,) = book.core.snapshot(book.now).ended_clients
    assert (ended.user, ended.key_name, ended.program) == ("ann", "bob", "train.py")
