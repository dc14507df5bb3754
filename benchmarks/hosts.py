"""A lab: hosts that are network namespaces, on a bridge of their own.

    with lab(3, Links(bandwidth_bits=100e6, delay_seconds=0.025, loss=0.01)) as hosts:
        scheduler = hosts[0].popen("scaler_scheduler", "--insecure", f"tcp://{hosts[0].address}:2345")

Each host has an address of its own, and so an object store of its own. Root can make them, with the commands ``ip``,
``tc`` and ``iptables``. With ``delay_seconds=0.025`` a round trip between two hosts takes 50 ms.

A process in a session of its own removes the hosts and kills what runs in them, when the lab is left or its process has
died. ``python -m benchmarks.hosts --sweep`` removes what both have left behind.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEVICE = "eth0"
_PREFIX = "sclab"
_NETWORK = "10.77.{}.{}"
_COMMAND_SECONDS = 30.0
_QUEUE_SECONDS = 0.05
_QUEUE_PACKETS = 10_000
_BURST_BYTES = 64 * 1024
_ROUTE_SECONDS = 5.0
_END_SECONDS = 15.0


@dataclass(frozen=True)
class Links:
    """The link of each host: the bits per second that it sends, the delay of each packet that it sends, and the part of
    the packets that it loses while receiving (0.01 is 1 %). Zero: no limit."""

    bandwidth_bits: float = 0.0
    delay_seconds: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True)
class Host:
    """``name`` of its namespace, and ``address`` of its only device."""

    name: str
    address: str

    def on(self) -> list[str]:
        """Return the beginning of a command line that runs there."""
        return ["ip", "netns", "exec", self.name]

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen([*self.on(), *command], **options)

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Raises CalledProcessError."""
        return subprocess.run([*self.on(), *command], check=True, capture_output=True, text=True, **options)

    def set_links(self, links: Links) -> None:
        """Other limits from now on. The delay must be the same as before."""
        _run("ip", "netns", "exec", self.name, "iptables", "-F", "INPUT")
        subprocess.run(["tc", "-n", self.name, "qdisc", "delete", "dev", DEVICE, "root"], capture_output=True)
        _limit(self.name, links)

    def transferred_bytes(self) -> tuple[int, int]:
        """Received and sent by that host so far, on the wire."""
        place = f"/sys/class/net/{DEVICE}/statistics"
        received, sent = self.run("cat", f"{place}/rx_bytes", f"{place}/tx_bytes").stdout.split()
        return int(received), int(sent)


def environment(settings: dict[str, str] | None = None) -> dict[str, str]:
    """This one, with ``settings``; the functions of the benchmarks can be imported in it."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return dict(os.environ, PYTHONPATH=path, **(settings or {}))


@contextmanager
def running(host: Host, *command: str, settings: dict[str, str] | None = None) -> Iterator[subprocess.Popen[Any]]:
    """On that host, until the context is left. ``settings`` are variables of its environment."""
    started = host.popen(
        *command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(settings),
    )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def lab(count: int, links: Links | None = None) -> Iterator[list[Host]]:
    """Create this many hosts. Raises CalledProcessError where they cannot be made, and PermissionError for others than
    root."""
    if os.getuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
        raise PermissionError("Cannot make hosts: only root can, with the commands ip and tc.")
    sweep()
    mark = f"{_PREFIX}{os.getpid()}n{time.monotonic_ns() % 1_000_000:06d}"
    switch, names = f"{mark}s", [f"{mark}h{index}" for index in range(count)]
    janitor = _start_janitor([switch, *names])
    try:
        yield _make(switch, names, links or Links())
    finally:
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait(_COMMAND_SECONDS)


def _make(switch: str, names: list[str], links: Links) -> list[Host]:
    network = os.getpid() % 250 + 1
    hosts = [Host(name, _NETWORK.format(network, index + 1)) for index, name in enumerate(names)]
    for name in (switch, *names):
        _run("ip", "netns", "add", name)
        _run("ip", "-n", name, "link", "set", "lo", "up")
    if links.delay_seconds and not _has_netem(switch):
        _make_delayed(switch, hosts, links)
    else:
        _make_bridge(switch, hosts)
    for host in hosts:
        _run("ip", "-n", host.name, "address", "add", f"{host.address}/24", "dev", DEVICE)
        _run("ip", "-n", host.name, "link", "set", DEVICE, "up")
        _limit(host.name, links)
    _wait_for_routes(hosts)
    return hosts


def _make_bridge(switch: str, hosts: list[Host]) -> None:
    _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
    _run("ip", "-n", switch, "link", "set", "bridge", "up")
    for index, host in enumerate(hosts):
        port = f"port{index}"
        _run("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", DEVICE, "netns", host.name)
        _run("ip", "-n", switch, "link", "set", port, "master", "bridge", "up")


def _limit(name: str, links: Links) -> None:
    if links.bandwidth_bits or links.loss:  # packets as on a wire, not the large ones that veth passes on
        _run("ip", "-n", name, "link", "set", DEVICE, "gso_max_segs", "1")
    parent = ["root"]
    if links.delay_seconds and _has_netem(name):
        _run("tc", "-n", name, "qdisc", "add", "dev", DEVICE, "root", "handle", "1:", "netem",
             "delay", f"{links.delay_seconds * 1e6:.0f}us", "limit", str(_QUEUE_PACKETS))  # fmt: skip
        parent = ["parent", "1:"]
    if links.bandwidth_bits:
        queue = max(_BURST_BYTES, int(links.bandwidth_bits / 8 * _QUEUE_SECONDS))
        _run("tc", "-n", name, "qdisc", "add", "dev", DEVICE, *parent, "tbf", "rate", f"{links.bandwidth_bits:.0f}bit",
             "burst", str(_BURST_BYTES), "limit", str(queue))  # fmt: skip
    if links.loss:
        _run("ip", "netns", "exec", name, "iptables", "-A", "INPUT", "-i", DEVICE, "-m", "statistic", "--mode",
             "random", "--probability", f"{links.loss}", "-j", "DROP")  # fmt: skip


def _has_netem(name: str) -> bool:
    command = ["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    if subprocess.run(command, capture_output=True, timeout=_COMMAND_SECONDS).returncode:
        return False
    _run("tc", "-n", name, "qdisc", "delete", "dev", "lo", "root")
    return True


def _make_delayed(switch: str, hosts: list[Host], links: Links) -> None:
    """Create the links without netem: each host's device is a tun, whose packets a process passes on later."""
    command = [sys.executable, "-m", "benchmarks.delaying_switch", f"{links.delay_seconds}"]
    pairs = [part for host in hosts for part in (host.name, host.address)]
    started = subprocess.Popen(
        ["ip", "netns", "exec", switch, *command, *pairs], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    if started.stdout.readline().strip() != "ready":
        raise OSError("Cannot delay packets: the tun devices could not be made.")


def _wait_for_routes(hosts: list[Host]) -> None:
    """A bridge port forwards only after a moment."""
    script = "import socket,sys; socket.create_connection((sys.argv[1], 9), 0.2)"
    until = time.monotonic() + _ROUTE_SECONDS
    for host in hosts[1:]:
        while time.monotonic() < until:
            command = [*host.on(), sys.executable, "-S", "-c", script, hosts[0].address]
            if "refused" in subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS).stderr:
                break


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS)
    if finished.returncode:
        raise OSError(f"Cannot make hosts: {shlex.join(command)}: {finished.stderr.strip()}")


# ---- removing them -----------------------------------------------------------------------------------------------


def sweep() -> None:
    """Remove the hosts of labs whose process is gone, together with their janitor."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=_COMMAND_SECONDS).stdout
    for name in (line.split()[0] for line in listed.splitlines() if line.startswith(_PREFIX)):
        owner = int(name.removeprefix(_PREFIX).partition("n")[0])
        if not Path(f"/proc/{owner}").exists():
            _remove([name])


def _start_janitor(names: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.hosts", "--janitor", *names]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True)


def _remove(names: list[str]) -> None:
    for name in names:
        while pids := _processes_in(name):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=_COMMAND_SECONDS)


def _processes_in(name: str) -> list[int]:
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, timeout=_COMMAND_SECONDS)
    return [pid for pid in map(int, found.stdout.split()) if pid != os.getpid() and not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hosts", description=__doc__)
    parser.add_argument("--sweep", action="store_true", help="remove the hosts of labs that are gone")
    parser.add_argument("--janitor", nargs="+", default=[], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.sweep:
        sweep()
    if chosen.janitor:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        sys.stdin.buffer.read()  # ends with the lab
        _remove(chosen.janitor)


if __name__ == "__main__":
    main()
