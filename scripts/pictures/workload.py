"""A busy cluster for pictures: two hosts, two clients, work that succeeds, fails, waits and is cancelled."""

from __future__ import annotations

import math
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import cloudpickle

from scaler import Client
from scaler_protocol.address import default_monitor_address
from tests.support.commands import Command, child_environment, command_line, start_scheduler
from tests.support.ports import free_address

HOSTS = {"node-a": 5, "node-b": 4}
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this module


@contextmanager
def busy_cluster(*scheduler_flags: object) -> Iterator[str]:
    """The monitor address of a cluster that works until this ends."""
    address = free_address()
    with ExitStack() as stack:
        stack.enter_context(start_scheduler(address, *scheduler_flags))
        for host, workers in HOSTS.items():
            cluster = stack.enter_context(_cluster(host, workers, address))
            cluster.wait_for_output(r"Worker\[0\] started")
            cluster.remember_family()
        stopped = threading.Event()
        clients = [threading.Thread(target=work, args=(address, stopped)) for work in (_simulations, _pipeline)]
        stack.callback(lambda: [each.join() for each in clients])
        stack.callback(stopped.set)
        for each in clients:
            each.start()
        yield default_monitor_address(address)


def _cluster(host: str, workers: int, address: str) -> Command:
    """With a host name of its own, where that is allowed."""
    names = ",".join(f"{host}/{number}" for number in range(workers))
    command = command_line("scaler_cluster", address, "-n", workers, "-wn", names, "-hi", 1)
    if os.geteuid() == 0 and shutil.which("unshare"):
        command = ["unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh", *command]
    return Command(command, child_environment(OMP_NUM_THREADS="1"))


# ---- the work ------------------------------------------------------------------------------------------------------


def simulate(seed: int, paths: int) -> float:
    draw = random.Random(seed)
    time.sleep(draw.uniform(0.02, 0.12))
    return sum(draw.gauss(0, 1) for _ in range(paths)) / math.sqrt(paths)


def price_option(strike: float, volatility: float) -> float:
    time.sleep(0.01 + volatility / 10)
    if volatility > 0.985:
        raise ValueError(f"no price for a volatility of {math.ceil(volatility * 10) / 10}")
    return max(0.0, 100 - strike) * volatility


def load_prices(symbol: str) -> list[float]:
    time.sleep(0.15)
    if symbol == "EURUSD":
        raise KeyError(symbol)
    return [random.random() for _ in range(20_000)]


def fit_curve(values: list[float]) -> float:
    time.sleep(0.2)
    return sum(values)


def calibrate(step: int) -> int:
    time.sleep(0.4)
    if step % 40 == 39:
        os.abort()
    return step


def render_on_gpu(frame: int) -> int:
    return frame


def report(*parts: float) -> float:
    time.sleep(0.3)
    return sum(parts)


for _function in (simulate, price_option, load_prices, fit_curve, calibrate, render_on_gpu, report):
    _function.__code__ = _function.__code__.replace(co_filename="pricing.py")  # tracebacks are in the pictures, too


def _simulations(address: str, stopped: threading.Event) -> None:
    with Client(address, group="risk") as client:
        for _ in range(120):
            client.submit_verbose(render_on_gpu, (1,), capabilities={"gpu": 1})
        turn = 0
        while not stopped.is_set():
            turn += 1
            futures = [client.submit(simulate, turn * 1000 + number, 1_000) for number in range(160)]
            futures += [client.submit(calibrate, turn * 4 + number) for number in range(4)]
            for future in futures[40:44]:
                future.cancel()
            _wait(futures, stopped)


def _pipeline(address: str, stopped: threading.Event) -> None:
    with Client(address, group="pricing") as client:
        turn = 0
        while not stopped.is_set():
            turn += 1
            graph = client.get(_graph(60), ["report"], block=False)
            draw = random.Random(turn)
            futures = [client.submit(price_option, 90.0, draw.random()) for _ in range(120)]
            futures += [client.submit(load_prices, symbol) for symbol in ("EURGBP", "EURUSD", "USDJPY", "GBPUSD")]
            _wait([*futures, *graph.values()], stopped)


def _graph(size: int) -> dict[str, Any]:
    loads = {f"load {number}": (load_prices, f"symbol {number}") for number in range(size)}
    names = {f"symbol {number}": f"S{number}" for number in range(size)}
    fits = {f"fit {number}": (fit_curve, f"load {number}") for number in range(size)}
    return {**names, **loads, **fits, "report": (report, *fits)}


def _wait(futures: list[Any], stopped: threading.Event) -> None:
    for future in futures:
        while not stopped.is_set() and not future.done():
            with suppress(TimeoutError):
                future.exception(timeout=0.2)
