"""Messages of the monitor stream as bytes: decoded and shown, or refused with FeedError.

Whatever is decoded can be encoded again, shown by a model and written as a JSON document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fuzz.choices import Choices
from fuzz.events import a_snapshot, some_events
from fuzz.screens import look_at
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.document import document_of
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model

LOOKS = 16
"""The first bytes of an input say what is looked at."""


def one_input(data: bytes) -> None:
    try:
        message = feed.decode(data[LOOKS:]).message
    except feed.FeedError as error:
        assert str(error)
        return
    assert feed.decode(feed.encode(message)).message == message
    model = Model(0.0, task_limit=1000)
    model.apply(message, 1.0)
    look_at(model, Choices(data[:LOOKS]), 2.0)
    if isinstance(message, Snapshot):
        json.dumps(document_of(message))


def seeds() -> Iterator[bytes]:
    for seed in range(30):
        choices = Choices(bytes(range(seed, 250)) + bytes(range(250)))
        yield bytes(range(seed, seed + LOOKS)) + feed.encode(some_events(choices))
        yield bytes(range(seed, seed + LOOKS)) + feed.encode(a_snapshot(choices))
