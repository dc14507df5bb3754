"""The command ``scaler_scheduler``."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import platform
import pwd
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import replace

import scaler_scheduler
from scaler_protocol.address import Address, parse_address
from scaler_protocol.command import (
    BadInput,
    current_parent,
    hold_stop_signals,
    install_stop_signals,
    new_event_loop,
    run_command,
    setup_logging,
)
from scaler_protocol.command.descriptors import allow_many_descriptors
from scaler_protocol.command.log_tail import LogTail, log_tail
from scaler_protocol.command.service_manager import notify
from scaler_protocol.handshake import NONCE_SIZE_BYTES, ServerHandshake, places_of
from scaler_protocol.ids import new_session
from scaler_protocol.keys import scheduler_keys
from scaler_protocol.objects.capacity import default_capacity_bytes
from scaler_protocol.objects.names import cluster_id
from scaler_protocol.options import values_of
from scaler_protocol.security import check_bind_allowed, ensure_token
from scaler_protocol.transport.context import new_context
from scaler_protocol.transport.router_socket import RouterSocket
from scaler_scheduler.config import SchedulerSettings, shown_settings
from scaler_scheduler.core.settings import SchedulerOptions, Settings
from scaler_scheduler.metrics.server import MetricsServer
from scaler_scheduler.shell.audit_log import AuditLog
from scaler_scheduler.shell.gateway import Gateway
from scaler_scheduler.shell.log_keeper import log_name
from scaler_scheduler.shell.monitor_socket import MonitorSocket, listen_at, listen_by_default
from scaler_scheduler.shell.reporter import Reporter

_GARBAGE_THRESHOLD = 20_000
"""New objects until the next collection. A message has many, hardly any of which are in cycles."""


def main(arguments: Sequence[str] | None = None) -> None:
    run_command(
        SchedulerSettings,
        run,
        program="scaler_scheduler",
        section="scheduler",
        description="Run a scheduler, which accepts tasks from clients and distributes them to workers.",
        version=scaler_scheduler.__version__,
        distribution="scaler-scheduler",
        arguments=arguments,
    )


def run(settings: SchedulerSettings) -> int:
    """Serve until told to stop; the exit code."""
    try:
        for address in filter(None, (settings.address, settings.monitor_address)):
            check_bind_allowed(parse_address(address), settings.insecure)
        token = _token_for(parse_address(settings.address))
    except (ValueError, OSError) as error:
        raise BadInput(str(error)) from None
    setup_logging(settings)
    notify(STATUS="Starting")
    allow_many_descriptors()
    loop = new_event_loop(settings.event_loop)
    hold_stop_signals()
    context = new_context(settings.io_threads)
    router = RouterSocket(context)
    try:
        address = _bind(router, settings.address)
        with log_tail() as tail:
            return _serve(settings, loop, router, address, token, tail)
    finally:
        router.close()
        context.term()
        loop.close()


def _token_for(address: Address) -> bytes:
    """The token that peers of this machine must know. Peers on the network need none: it is there for those that ask
    for a proof. Raises as ``ensure_token``."""
    try:
        return ensure_token()
    except (ValueError, OSError):
        if _needs_token(address):
            raise
        return b""


def _needs_token(address: Address) -> bool:
    return address.is_local and address.scheme != "inproc" and scheduler_keys(address) is None


def _bind(router: RouterSocket, address: str) -> str:
    try:
        return router.reserve(address)
    except OSError as error:
        raise BadInput(str(error)) from None


def _listen(router: RouterSocket) -> None:
    """Once all that takes a descriptor has one: from now on others take them."""
    try:
        router.listen()
    except OSError as error:
        raise BadInput(str(error)) from None


def _serve(
    settings: SchedulerSettings,
    loop: asyncio.AbstractEventLoop,
    router: RouterSocket,
    address: str,
    token: bytes,
    tail: LogTail,
) -> int:
    monitor_socket = _open_monitor_socket(settings.monitor_address, address)
    monitor_address = monitor_socket.address if monitor_socket is not None else settings.monitor_address or ""
    logging.info(f"Scheduler: monitor address is {monitor_address}")
    audit_log = AuditLog(settings.audit_log)
    gateway = Gateway(loop, router, _core_settings(settings, address, monitor_address, token), audit_log)
    event_log = _event_log(settings.event_log, gateway.core.state.settings.epoch)
    reporter = Reporter(loop, gateway, monitor_address, event_log, settings.event_log_limit_bytes, monitor_socket, tail)
    gc.freeze()  # the objects made by imports are never freed: collections skip them
    gc.set_threshold(_GARBAGE_THRESHOLD)
    install_stop_signals(loop, lambda: gateway.stop(settings.grace_seconds))
    metrics = None
    try:
        metrics = _start_metrics(settings, _watched_address(monitor_socket, monitor_address))
        reporter.start()
        if reporter.error is None:
            _listen(router)
            gateway.start()
            _report_ready(address, monitor_address)
            loop.run_forever()
    finally:
        if metrics is not None:
            metrics.close()
        reporter.close()
        gateway.close()
        audit_log.close()
    if reporter.error is not None:
        raise BadInput(reporter.error)
    return 0


def _open_monitor_socket(monitor_address: str | None, address: str) -> MonitorSocket | None:
    """None: monitors connect over the network."""
    try:
        if monitor_address is None:
            return listen_by_default(address)
        return listen_at(parse_address(monitor_address))
    except OSError as error:
        raise BadInput(str(error)) from None


def _watched_address(monitor_socket: MonitorSocket | None, monitor_address: str) -> str:
    """The same place for a process of ours, which needs no link."""
    has_link = monitor_socket is not None and monitor_socket.link
    return f"ipc://{monitor_socket.path}" if monitor_socket is not None and has_link else monitor_address


def _start_metrics(settings: SchedulerSettings, monitor_address: str) -> MetricsServer | None:
    if settings.prometheus_address is None:
        return None
    metrics = MetricsServer(settings.prometheus_address, monitor_address, settings.prometheus_token_file)
    logging.info(f"Scheduler: metrics for Prometheus are at {metrics.start()}")
    if metrics.is_open_to_others:
        logging.warning(
            "Scheduler: other machines can read these metrics. Set --prometheus-token-file to require a token."
        )
    return metrics


def _event_log(directory: str | None, epoch: int) -> str | None:
    """The first file in which this run of the scheduler is kept."""
    if directory is None:
        return None
    path = os.path.join(directory, log_name(time.time(), f"{epoch:x}"))
    logging.info(f"Scheduler: event log is {path}")
    return path


def _report_ready(address: str, monitor_address: str) -> None:
    parent = current_parent()
    if parent is not None:
        parent.report_ready(address=address, monitor_address=monitor_address)
    notify(READY="1", STATUS=f"Serving at {address}")


def _core_settings(settings: SchedulerSettings, address: str, monitor_address: str, token: bytes) -> Settings:
    memory = settings.client_memory or default_capacity_bytes()
    used = replace(settings, address=address, monitor_address=monitor_address, client_memory=memory)
    python_version = platform.python_version()
    return Settings(
        address=address,
        session=new_session(),
        epoch=secrets.randbelow(2**63 - 1) + 1,
        handshake=_handshake(address, token),
        cluster=cluster_id(address, socket.gethostname(), str(os.getuid()), token),
        **values_of(SchedulerOptions, settings),
        client_memory_bytes=memory,
        version=scaler_scheduler.__version__,
        python_version=python_version,
        shown=(*shown_settings(used), ("python_version", python_version)),
        host=socket.gethostname(),
        pid=os.getpid(),
        user=_user_name(),
    )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may have no entry for it
        return str(os.getuid())


def _handshake(address: str, token: bytes) -> ServerHandshake:
    seed = secrets.token_bytes(NONCE_SIZE_BYTES)
    return ServerHandshake(token, seed, places_of(address), _needs_token(parse_address(address)))


if __name__ == "__main__":
    main()
