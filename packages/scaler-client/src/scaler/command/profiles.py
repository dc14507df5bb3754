"""``scaler profile``."""

from __future__ import annotations

import time

from scaler import Client
from scaler.command.settings import ProfileSettings
from scaler_protocol.command import BadInput


def run(settings: ProfileSettings) -> int:
    """Profile all running tasks for a while, and print or save the result. Ctrl-C ends it earlier."""
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        profile = client.profile(settings.interval).start()
        try:
            time.sleep(settings.seconds)
        except KeyboardInterrupt:
            pass
        profile.stop()
    if settings.output is None:
        print(profile.text(settings.by))
        return 0
    try:
        profile.save(settings.output, settings.by)
    except ValueError as error:
        raise BadInput(str(error)) from None
    print(f"Saved {settings.output}: {profile.seconds:.1f} s of the cluster.")
    return 0
