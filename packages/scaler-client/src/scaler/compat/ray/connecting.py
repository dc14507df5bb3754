"""The cluster that the functions of this package use: one for each process."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any

from scaler.client.client import Client
from scaler.compat.ray.warning import warn_of_ignored
from scaler.shell.connection import SCHEDULER_VARIABLE, is_far_from_agents, nested_socket

_HERE = "local"
_ANY = "auto"


class _ProcessConnection:
    """``combo``: the cluster with ``n_workers``, if this process has started it. ``is_owned``: ``shutdown`` disconnects
    the client. ``task_client``: of the task that runs in this process."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.combo: Any = None
        self.n_workers = 0
        self.is_owned = False
        self.task_client: Client | None = None
        self.lock = threading.RLock()


_connection = _ProcessConnection()


class RayContext:
    """The value that ``init`` returns. Leaving it as a context manager shuts the connection down."""

    def __init__(self, address: str) -> None:
        self.address_info = {"address": address}

    def __enter__(self) -> RayContext:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        shutdown()

    def disconnect(self) -> None:
        shutdown()

    def __repr__(self) -> str:
        return f"RayContext({self.address_info['address']!r})"


def init(
    address: str | None = None,
    *,
    num_cpus: int | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    ignore_reinit_error: bool = False,
    **ignored: Any,
) -> RayContext:
    """Connect to the scheduler at ``address``. Without an address, connect to that of the environment variable
    SCALER_SCHEDULER_ADDRESS, or start a cluster with ``num_cpus`` workers on this machine, each of which offers
    ``num_gpus`` and ``resources`` in equal parts. "local" always starts one, "auto" never does."""
    warn_of_ignored("init()", dict.fromkeys(ignored, "this interface has no such setting"))
    if address not in (None, _HERE, _ANY) and "://" not in str(address):
        address = f"tcp://{address}"
    if address is not None and address.startswith("ray://"):
        raise ValueError(
            f"Cannot connect to {address!r}: it is a cluster of Ray. Pass the address of a scaler_scheduler."
        )
    found = os.environ.get(SCHEDULER_VARIABLE) if address in (None, _ANY) else address
    if address == _ANY and not found:
        raise ConnectionError(f"Cannot find a cluster: {SCHEDULER_VARIABLE} is not set. Set it, or pass an address.")
    is_new = not found or address == _HERE
    if not is_new and (num_cpus is not None or num_gpus is not None or resources is not None):
        raise ValueError(
            "Cannot set num_cpus, num_gpus or resources: the cluster exists already. Leave them out, or pass "
            'address="local".'
        )
    if _check_first(ignore_reinit_error):
        return _context()
    if is_new:
        offered = {**(resources or {}), **({"gpu": num_gpus} if num_gpus else {})}
        return _start(os.cpu_count() or 1 if num_cpus is None else num_cpus, offered, {})
    return _connect(Client(found), is_owned=True)


def scaler_init(
    address: str | None = None,
    *,
    client: Client | None = None,
    n_workers: int | None = None,
    ignore_reinit_error: bool = False,
    **combo_options: Any,
) -> RayContext:
    """``init`` with the names of Scaler: use ``client``, which stays open after ``shutdown``; or connect to the
    scheduler at ``address``; or start a SchedulerClusterCombo with ``n_workers`` (default: one for each processor) and
    ``combo_options``."""
    if sum([address is not None, client is not None, n_workers is not None or bool(combo_options)]) > 1:
        raise ValueError("Cannot choose a cluster: pass an address, or a client, or n_workers with other options.")
    if _check_first(ignore_reinit_error):
        return _context()
    if client is not None:
        return _connect(client, is_owned=False)
    if address is not None:
        return _connect(Client(address), is_owned=True)
    return _start(n_workers or os.cpu_count() or 1, {}, combo_options)


def shutdown(_exiting_interpreter: bool = False) -> None:
    """Cancel what is unfinished, disconnect, and stop the cluster if ``init`` started it. May be called twice."""
    with _connection.lock:
        client, combo, is_owned = _connection.client, _connection.combo, _connection.is_owned
        _connection.client = _connection.combo = None
        _connection.n_workers = 0
    if client is not None and is_owned:
        client.disconnect()
    if combo is not None:
        combo.shutdown()


def is_initialized() -> bool:
    return _connection.client is not None or _is_in_task()


def current_client() -> Client:
    """The client of this process, or of the task that runs in it. The first call connects, as ``init`` does."""
    with _connection.lock:
        if _is_in_task():
            _connection.task_client = _connection.task_client or Client()
            return _connection.task_client
        if _connection.client is None:
            init()
        assert _connection.client is not None
        return _connection.client


def own_workers() -> int:
    """The number of workers of the cluster that this process has started; 0: it has started none."""
    return _connection.n_workers


def leave_task() -> None:
    """The task of this process has ended: cancel what it has submitted and not waited for."""
    client, _connection.task_client = _connection.task_client, None
    if client is not None:
        client.disconnect()


def _is_in_task() -> bool:
    return nested_socket(None) is not None or is_far_from_agents()


def _check_first(ignore_reinit_error: bool) -> bool:
    """Return whether there is a connection already. Raises RuntimeError if that is an error."""
    if is_initialized() and not ignore_reinit_error:
        raise RuntimeError(
            "Cannot initialize twice: there is a connection already. Call shutdown() before, or pass "
            "ignore_reinit_error=True."
        )
    return is_initialized()


def _context() -> RayContext:
    return RayContext(current_client().address)


def _connect(client: Client, is_owned: bool) -> RayContext:
    with _connection.lock:
        _connection.client, _connection.is_owned = client, is_owned
    return RayContext(client.address)


def _start(n_workers: int, offered: dict[str, float], options: dict[str, Any]) -> RayContext:
    from scaler import SchedulerClusterCombo

    if offered:
        options["per_worker_capabilities"] = {name: _part(amount, n_workers) for name, amount in offered.items()}
    combo = SchedulerClusterCombo(n_workers, **options)
    try:
        context = _connect(Client(combo.get_address()), is_owned=True)
    except BaseException:
        combo.shutdown()
        raise
    _connection.combo, _connection.n_workers = combo, n_workers
    return context


def _part(amount: float, n_workers: int) -> float:
    """Return the part of a total amount that one worker offers. Parts above 1 are whole numbers, rounded down."""
    part = amount / max(n_workers, 1)
    return int(part) if part >= 1 else part
