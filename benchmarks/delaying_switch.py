"""``delaying_switch SECONDS (NAMESPACE ADDRESS)...``: a switch that delays packets, where the kernel has no netem.

Each namespace gets a tun device. This process reads the packets of all of them, and writes each to the device of its
destination when its time has come.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque

from benchmarks.hosts import DEVICE

_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
_PACKET_BYTES = 65_536
_READS_IN_A_ROW = 64
_DEVICE_QUEUE_PACKETS = 10_000
_WAITING_LIMIT_PACKETS = 100_000


def make_device(index: int, namespace: str) -> int:
    """The descriptor of a tun device that was moved into ``namespace``."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"delayed{index}"
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
    for command in (
        ["ip", "link", "set", name, "netns", namespace],
        ["ip", "-n", namespace, "link", "set", name, "name", DEVICE, "txqueuelen", str(_DEVICE_QUEUE_PACKETS)],
    ):
        subprocess.run(command, check=True, timeout=30)
    return fd


def forward(devices: dict[bytes, int], delay_seconds: float) -> None:
    """``devices`` by the address behind them. Never returns."""
    waiting: deque[tuple[float, int, bytes]] = deque()
    poller = select.epoll()
    for fd in devices.values():
        poller.register(fd, select.EPOLLIN)
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else -1
        for fd, _ in poller.poll(pause):
            _take_in(fd, devices, waiting, delay_seconds)
        _deliver(waiting)


def _take_in(fd: int, devices: dict[bytes, int], waiting: deque[tuple[float, int, bytes]], delay: float) -> None:
    for _ in range(_READS_IN_A_ROW):
        try:
            packet = os.read(fd, _PACKET_BYTES)
        except OSError:
            return
        target = devices.get(packet[16:20])
        if target is not None and packet[0] >> 4 == 4 and len(waiting) < _WAITING_LIMIT_PACKETS:
            waiting.append((time.monotonic() + delay, target, packet))


def _deliver(waiting: deque[tuple[float, int, bytes]]) -> None:
    now = time.monotonic()
    while waiting and waiting[0][0] <= now:
        _, target, packet = waiting.popleft()
        try:
            os.write(target, packet)
        except OSError:
            pass  # the device is down, or its queue is full: the packet is lost


def main(arguments: list[str]) -> None:
    pairs = list(zip(arguments[1::2], arguments[2::2], strict=True))
    devices = {socket.inet_aton(address): make_device(index, name) for index, (name, address) in enumerate(pairs)}
    print("ready", flush=True)
    forward(devices, float(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
