"""The address at which the commands of a stack reach its scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scaler.command.stack_file import ROLES, StackPart
from scaler.command.stack_routes import address_for_peers
from scaler_worker.manager.shell import ssh_route

(MANAGER,) = (role for role in ROLES if role.section == "manager")
FAR = {"kind": "ssh", "hosts": ["node1=2"]}


@pytest.mark.parametrize(
    ("listening", "section", "address"),
    [
        ("tcp://10.0.0.1:5", FAR, "tcp://10.0.0.1:5"),
        ("tcp://127.0.0.1:5", FAR, "tcp://127.0.0.1:5"),
        ("tcp://0.0.0.0:5", FAR, "tcp://10.0.0.7:5"),
        ("tcp://*:5", FAR, "tcp://10.0.0.7:5"),
        ("tcp://[::]:5", FAR, "tcp://10.0.0.7:5"),
        ("tcp://0.0.0.0:5", {**FAR, "address": "tcp://10.0.0.9:5"}, "tcp://127.0.0.1:5"),
        ("tcp://0.0.0.0:5", {**FAR, "hosts": "node1=2"}, "tcp://10.0.0.7:5"),
        ("tcp://0.0.0.0:5", {"kind": "ssh"}, "tcp://127.0.0.1:5"),
        ("tcp://0.0.0.0:5", {"kind": "local"}, "tcp://127.0.0.1:5"),
    ],
)
def test_an_address_for_peers(
    listening: str, section: Mapping[str, Any], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_route, "address_for_hosts", lambda hosts, config: "tcp://10.0.0.7:0")
    assert address_for_peers(listening, [StackPart(MANAGER, section)]) == address
