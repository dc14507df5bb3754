"""``scaler stack``."""

from __future__ import annotations

from scaler import Client
from scaler.command.settings import StackSettings


def run(settings: StackSettings) -> int:
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        print(client.stack(settings.worker))
    return 0
