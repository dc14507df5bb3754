"""Through which address of this host the nodes of Slurm reach it."""

from __future__ import annotations

import re
import socket

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput
from scaler_worker.manager.shell.slurm_commands import check_programs, run_slurm

_ELSEWHERE = "192.0.2.1"
"""An address of the documentation, which is reached through the default route. Nothing is sent to it."""

_CONTROLLER = re.compile(r"^SlurmctldHost\S*\s*=\s*([^\s(]+)(?:\(([^)]+)\))?", re.MULTILINE)


def address_for_nodes() -> str:
    """A free port at the address from which this host reaches the controller of Slurm, or else other hosts. Raises
    BadInput."""
    check_programs()
    found = _CONTROLLER.search(run_slurm("scontrol", ["show", "config"]).output)
    places = [found[2] or found[1]] if found is not None else []
    for place in (*places, _ELSEWHERE):
        address = _address_towards(place)
        if address is not None and not parse_address(address).is_local:
            return address
    raise BadInput(
        "Cannot find the address at which the nodes of Slurm reach this host. Start a scheduler at an address of its "
        "host in the network, and give that."
    )


def _address_towards(place: str) -> str | None:
    try:
        family, _, _, _, target = socket.getaddrinfo(place, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            source = probe.getsockname()[0]
    except OSError:
        return None
    return f"tcp://[{source}]:0" if ":" in source else f"tcp://{source}:0"
