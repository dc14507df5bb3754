"""Sessions belong to keys, by which the doorkeeper names users: role, colon, public key."""

from __future__ import annotations

from scaler_protocol.messages import Refused, Role, ShutdownRequest
from tests.unit.scheduler.playbook import Playbook


def test_a_session_is_its_keys_whatever_else_that_key_may_do_by_now() -> None:
    book = Playbook(address="tcp://0.0.0.0:1", protected=False)
    client = book._peer("client", Role.SUBMIT)
    assert book.core.admits(client.session, b"submit:A") and client.connect() == []
    for other in (b"submit:B", b"admin:B", b":A", b"observe:A", b"work:A"):
        assert not book.core.admits(client.session, other)
        [(name, refused)] = book.run()
        assert name == "client" and isinstance(refused, Refused)
    assert book.core.admits(client.session, b"submit:A")
    [(_, reply)] = client.says(ShutdownRequest())
    assert not reply.accepted and "admin.key" in reply.text
    assert book.core.admits(client.session, b"admin:A")
    assert client.says(ShutdownRequest())[0][1].accepted
