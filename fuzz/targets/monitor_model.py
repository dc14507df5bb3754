"""The model behind every screen, attacked by its publisher: events and snapshots in any order, right and wrong.

The model takes everything in or says what cannot be read. Every table, stream, graph and history can be shown after
each message, and the log of tasks stays within its limit.
"""

from __future__ import annotations

from fuzz.choices import Choices
from fuzz.events import a_snapshot, some_events
from fuzz.screens import look_at
from fuzz.tally import TALLY
from scaler_protocol.monitor.format import is_time
from scaler_protocol.monitor.model import Model

TASK_LIMIT = 200
PAGE_ROWS = 65_536
MOST_MESSAGES = 24


def one_input(data: bytes) -> None:
    choices = Choices(data)
    model = Model(0.0, task_limit=TASK_LIMIT)
    now = 0.0
    for _ in range(MOST_MESSAGES):
        if not choices.more:
            break
        now += choices.below(4)
        message = a_snapshot(choices) if choices.flag(4) else some_events(choices)
        if is_time(message.time):  # readers refuse others
            model.apply(message, now)
            TALLY.count_messages()
        if choices.flag():
            look_at(model, choices, now)
    look_at(model, choices, now)
    assert len(model.log) <= TASK_LIMIT + PAGE_ROWS
