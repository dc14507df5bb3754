"""The address at which the commands of a stack, and workers on other hosts, reach its scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scaler.command.stack_file import StackPart
from scaler.utility.siblings import load_sibling
from scaler_protocol.address import Address, parse_address
from scaler_protocol.command import BadInput
from scaler_protocol.monitor.operation import scheduler_address

_THIS_HOST = parse_address("tcp://127.0.0.1:1")
_ROUTES = "scaler_worker.manager.shell"
_BATCH_KINDS = ("slurm", "gridengine", "pbs", "lsf")


def address_for_peers(listening: str, parts: Iterable[StackPart]) -> str:
    """``listening``: of the scheduler. One that listens at all addresses of this host is reached at the one from which
    this host reaches the workers of a manager, if there are any elsewhere. Raises BadInput."""
    address = parse_address(listening)
    here = scheduler_address(_THIS_HOST, address)
    if here == address:
        return listening
    own = next((found for part in parts if (found := _own_address(part))), None)
    return str(here if own is None else Address("tcp", own.host, address.port))


def _own_address(part: StackPart) -> Address | None:
    """The address from which this host reaches the workers of a manager. None: they are here, or the manager knows the
    scheduler's address."""
    if not part.role.has_kind or "address" in part.section:
        return None
    try:
        found = _route(part.section)
    except BadInput as error:
        raise BadInput(f"Cannot start the {part.title}: {error}") from None
    return parse_address(found) if found else None


def _route(options: Mapping[str, Any]) -> str:
    """Return a port at that address; empty: the workers are here."""
    kind = options["kind"]
    if kind == "ssh" and isinstance(options.get("hosts"), list | str):
        find = load_sibling(f"{_ROUTES}.ssh_route", "address_for_hosts")
        return str(find(options["hosts"], options.get("ssh-config")))
    if kind in _BATCH_KINDS:
        return str(load_sibling(f"{_ROUTES}.batch_route", "address_for_nodes")(kind))
    if kind == "kubernetes":
        find = load_sibling(f"{_ROUTES}.pods_route", "address_for_pods")
        return str(find(options.get("kube-config"), options.get("kube-context")))
    return ""
