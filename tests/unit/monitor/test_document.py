from __future__ import annotations

import json

from scaler_protocol.monitor.document import document_of
from tests.support.monitoring import RECEIVED, SENT, agent_status, snapshot


def test_a_document_is_json_and_says_everything() -> None:
    document = json.loads(json.dumps(document_of(snapshot((agent_status(0, 3), agent_status(1, 2))))))
    assert document["sent"] == SENT
    assert document["received"] == RECEIVED
    assert document["tasks"]["success"] == 53_704
    assert [document["tasks"][name] for name in ("unassigned", "queued", "running")] == [2_000, 7, 3]
    assert [worker["name"] for worker in document["workers"]] == ["w0", "w1", "w2", "w100", "w101"]
    assert document["totals"]["workers"] == 5
    assert document["agents"][0]["state"] == "connected"
    assert document["clients"][0]["session"] == "ab" * 16
    assert document["functions"][0]["name"] == "simulate"
