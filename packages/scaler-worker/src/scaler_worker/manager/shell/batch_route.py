"""Through which address of this host the nodes of a batch system reach it."""

from __future__ import annotations

import re
import socket

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput
from scaler_worker.manager.core.batch_system import BatchSystem
from scaler_worker.manager.kinds import KINDS
from scaler_worker.manager.shell.batch_commands import check_programs, run_batch

ELSEWHERE = "192.0.2.1"
"""An address of the documentation, which is reached through the default route. Nothing is sent to it."""


def address_for_nodes(kind: str) -> str:
    """A free port at the address from which this host reaches the controller of the batch system of this kind, or else
    other hosts. Raises BadInput."""
    system: BatchSystem = KINDS[kind].load_settings_class().system()
    check_programs(system)
    for place in (*_controllers(system), ELSEWHERE):
        address = address_towards(place)
        if address is not None and not parse_address(address).is_local:
            return address
    raise BadInput(
        f"Cannot find the address at which the nodes of {system.title} reach this host. Start a scheduler at an "
        "address of its host in the network, and give that."
    )


def _controllers(system: BatchSystem) -> list[str]:
    if system.controller is None:
        return []
    call, pattern = system.controller
    found = re.search(pattern, run_batch(system, call).output, re.MULTILINE)
    return [next(place for place in reversed(found.groups()) if place)] if found is not None else []


def address_towards(place: str) -> str | None:
    try:
        family, _, _, _, target = socket.getaddrinfo(place, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            source = probe.getsockname()[0]
    except OSError:
        return None
    return f"tcp://[{source}]:0" if ":" in source else f"tcp://{source}:0"
