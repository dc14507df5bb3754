"""Names of actors as their client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.client import actor_names
from scaler.client.actor_names import ActorName


def test_a_client_leaves_it_to_the_scheduler_to_clear_the_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the client has lost the name and taken it again since, the handle is that of its next actor."""
    done: list[str] = []

    class Recorder:
        def __init__(self, *arguments: Any) -> None:
            pass

        def __getattr__(self, action: str) -> Any:
            return lambda **options: not done.append(action)

    monkeypatch.setattr(actor_names, "Lock", Recorder)
    monkeypatch.setattr(actor_names, "Variable", Recorder)
    no_client: Any = None
    ActorName(no_client, "bob").give_back()
    assert done == ["acquire", "release"]
