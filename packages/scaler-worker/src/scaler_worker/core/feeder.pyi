"""Gives processors their tasks (contract; the code is in feeder.pyx)."""

from scaler_worker.core.durations import Durations
from scaler_worker.core.hand_overs import HandOvers
from scaler_worker.core.nodes import Nodes
from scaler_worker.core.outbox import Outbox
from scaler_worker.core.processor import Processor
from scaler_worker.core.queue import TaskQueue
from scaler_worker.core.roster import Roster

HAND_OVER_SECONDS: float
"""How much work a processor is given at a time, and how little makes it get more."""

LEAST_HAND_OVER_SECONDS: float
"""Less than this is not worth spreading over processors."""

class Feeder:
    """Takes from ``queue`` and ``nodes`` and adds to ``outbox``; ``hand_overs`` knows what must go with tasks."""

    has_timed: bool
    """A task whose time is limited was handed over. Whoever has noted that says False."""

    def __init__(
        self,
        roster: Roster,
        queue: TaskQueue,
        durations: Durations,
        nodes: Nodes,
        hand_overs: HandOvers,
        outbox: Outbox,
    ) -> None: ...
    @property
    def broken(self) -> list[Processor]:
        """Whose boards are found to be broken. Whoever has seen to them empties this."""

    def feed(self) -> None:
        """Give every processor what it needs, as long as something waits."""

    def feed_idle(self) -> None:
        """Give what waits to those who have nothing."""

    def work_of(self, processor: Processor) -> float:
        """Estimated seconds of all it holds, as of the last harvest."""
