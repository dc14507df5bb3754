"""``scaler output``."""

from __future__ import annotations

import sys

from scaler import Client
from scaler.command.settings import OutputSettings


def run(settings: OutputSettings) -> int:
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        sys.stdout.write(client.output(settings.worker))
    return 0
