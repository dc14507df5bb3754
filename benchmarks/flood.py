"""``python -m benchmarks.flood [--rounds N] [--address tcp|ipc|curve] [KIND...]``: what a flood from an unauthenticated
peer (see ``attacker``) costs an authenticated client, and the scheduler.

Stretches with and without the flood alternate, so the ratio counts, not the rates. The attacker takes processor time of
the same machine. So there are two kinds of stretches without: in "elsewhere" it floods another scheduler, which has no
clients, and in "calm" there is no attacker.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from scaler import Client, SchedulerClusterCombo

KINDS = {
    "tcp": ("churn", "hello", "large", "structs", "tiny", "parts", "half", "idle"),
    "ipc": ("churn", "hello", "large", "structs", "tiny", "parts", "half", "idle"),
    "curve": ("churn", "half", "curve", "curve_half", "curve_churn"),
}
STRETCH_SECONDS = 1.5
MAP_TASKS = 2000


def same(item: int) -> int:
    return item


def map_rate(client: Client) -> float:
    return rate_of(lambda: len(client.map(same, range(MAP_TASKS))))


def single_rate(client: Client) -> float:
    return rate_of(lambda: client.submit(same, 1).result())


def rate_of(act: Callable[[], int]) -> float:
    done, began = 0, time.monotonic()
    while time.monotonic() < began + STRETCH_SECONDS:
        done += act()
    return done / (time.monotonic() - began)


@contextmanager
def flooded(kind: str, address: str, keys: Path | None) -> Iterator[None]:
    """The attacker knows ``scheduler.pub`` alone of all keys."""
    environment = {name: value for name, value in os.environ.items() if name != "SCALER_KEYS"}
    arguments = [kind, address, str(3 * STRETCH_SECONDS), str(keys or "")]
    command = [sys.executable, "-m", "benchmarks.attacker", *arguments]
    attacker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert attacker.stdout is not None
    try:
        attacker.stdout.readline()  # it begins
        yield
    finally:
        print("   ", attacker.communicate()[0].strip(), "at", address, flush=True)


def measure(kind: str, address: str | None, keys: Path | None, rounds: int) -> None:
    with (
        SchedulerClusterCombo(2, address=address, logging_level="ERROR") as combo,
        SchedulerClusterCombo(
            1, address=address and address.replace("/scheduler", "/other"), logging_level="ERROR"
        ) as other,
    ):
        connected, decoy = (each.replace("0.0.0.0", "127.0.0.1") for each in (combo.get_address(), other.get_address()))
        scheduler = psutil.Process(combo._scheduler._child.pid)
        with Client(connected) as client:
            rates_of(client)
            before, rounds_done = memory_of(scheduler), list[tuple[tuple[float, float], ...]]()
            for _ in range(rounds):
                calm = rates_of(client)
                with flooded(kind, decoy, keys):
                    elsewhere = rates_of(client)
                with flooded(kind, connected, keys):
                    rounds_done.append((calm, elsewhere, rates_of(client)))
            print_figures(kind, rounds_done)
            print(f"    memory of the scheduler {before:.0f} -> {memory_of(scheduler):.0f} MiB", flush=True)


def rates_of(client: Client) -> tuple[float, float]:
    return map_rate(client), single_rate(client)


def print_figures(kind: str, rounds: list[tuple[tuple[float, float], ...]]) -> None:
    for index, name in enumerate(("map", "single")):
        calm = shown([flood[index] / calm[index] for calm, _, flood in rounds])
        elsewhere = shown([flood[index] / elsewhere[index] for _, elsewhere, flood in rounds])
        print(f"{kind}: {name} x {calm} of calm, x {elsewhere} of elsewhere")


def memory_of(process: psutil.Process) -> float:
    """The most it had so far, in MiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def shown(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--address", choices=list(KINDS), default="tcp")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keys, address = None, None
        if chosen.address == "ipc":
            address = f"ipc://{folder}/scheduler"
        elif chosen.address == "curve":
            keys, address = Path(folder) / "keys", "tcp://0.0.0.0:0"
            subprocess.run([sys.executable, "-m", "scaler_protocol.keygen", str(keys)], check=True, capture_output=True)
            os.environ["SCALER_KEYS"] = str(keys)
        for kind in chosen.kinds or KINDS[chosen.address]:
            measure(kind, address, keys, chosen.rounds)


if __name__ == "__main__":
    main()
