"""The path of ordinary tasks and results through the scheduler (contract of hot_path.pyx).

``Tasks`` of clients enter tables and queues; the end of a turn places queued tasks and sends them to agents;
``Results`` of agents are checked and forwarded. This is compiled because the time of a single task consists of calls.

Whatever is unusual about tasks and results, all other messages, and the rest of a turn are rules. The rules that this
module calls are those of the modules it imports; ``message_rules`` has one for each type of message. No rule calls
back.
"""

from scaler_protocol.messages import Envelope
from scaler_scheduler.core.effects import Effect
from scaler_scheduler.core.state import SchedulerState

def on_message(state: SchedulerState, peer: bytes, envelope: Envelope, now: float) -> None:
    """Handle one message that came over the connection of ``peer``."""

def take_effects(state: SchedulerState, now: float) -> list[Effect]:
    """Finish the turn: admit, place, dispatch, steal, forward, acknowledge. Returns what the shell must do, in
    order."""

def next_deadline(state: SchedulerState) -> float | None:
    """Return when to call ``on_deadline`` and ``take_effects`` at the latest."""
