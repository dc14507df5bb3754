"""``scaler output``."""

from __future__ import annotations

import sys
import time

from scaler import Client
from scaler.client.inquiries import pieces_inquiry
from scaler.command.followed_output import FollowedOutput
from scaler.command.settings import OutputSettings
from scaler_protocol.output_text import text_of

INTERVAL_SECONDS = 1.0


def run(settings: OutputSettings) -> int:
    """Print the latest output once; with ``--follow``, also what is printed later, until it is interrupted."""
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        if not settings.follow:
            sys.stdout.write(client.output(settings.worker))
            return 0
        _follow(client, settings.worker)
    return 0


def _follow(client: Client, worker: str) -> None:
    followed = FollowedOutput()
    while True:
        pieces = client._inquire(pieces_inquiry(0, worker))
        sys.stdout.write(text_of(followed.new_in(pieces), names_tasks=True))
        sys.stdout.flush()
        time.sleep(INTERVAL_SECONDS)
