"""A task's way through the agent and back (contract of path.pyx): all that is done for each message of tasks, for each
result and at the end of each drain, with what it needs. Compiled, since calls are what a lone task's time is made of.

Everything else is left to the classes that build on these: ``Slots`` starts processors (``_start_missing``), looks
after those that hold much (``_watch_full``) and takes what is not usual about results (``_take_others`` ...);
``AgentCore`` takes other messages, tasks that need more than their function (``_accept``) or cannot be taken in
(``_refuse``), and sends what is not a result (``_flush``, ``_say_goodbye``).
"""

from collections.abc import Callable
from typing import Any

from scaler_protocol.codec import ResultRun
from scaler_protocol.link import Link
from scaler_protocol.messages import Body, Envelope, StoreAttached
from scaler_worker.core.durations import Durations
from scaler_worker.core.endings import Endings
from scaler_worker.core.feeder import Feeder
from scaler_worker.core.lease import Lease
from scaler_worker.core.nodes import Nodes
from scaler_worker.core.objects import ObjectExchange
from scaler_worker.core.processor import Processor
from scaler_worker.core.queue import TaskQueue
from scaler_worker.core.roster import Roster
from scaler_worker.core.slots import Slots
from scaler_worker.core.starts import Starts

SCHEDULER: bytes
"""The name of the only peer, in effects."""

PING_SECONDS: float
LEASE_STEP_SECONDS: float
_Handler = Callable[[Any, float], None]

class SlotsPath:
    slots: int
    queue: TaskQueue
    durations: Durations
    nodes: Nodes
    processors: dict[int, Processor]
    blocked: dict[int, Processor]
    finished: list[ResultRun]
    endings: Endings
    is_watched: bool
    """Results are to say which worker made them, and when."""
    accepting: bool
    _roster: Roster
    _feeder: Feeder
    _starts: Starts
    _poll_at: float | None
    def __init__(
        self,
        roster: Roster,
        queue: TaskQueue,
        durations: Durations,
        nodes: Nodes,
        feeder: Feeder,
        starts: Starts,
        endings: Endings,
    ) -> None: ...
    def turn(self, now: float, may_start: bool) -> None:
        """Once per drain: start processors that are missing, and unless the lease is over, give each one what it
        needs, as long as something waits."""

    def harvest(self, processor: Processor, now: float) -> None:
        """Take what it finished."""

    def next_deadline(self) -> float | None: ...

class AgentPath:
    slots: Slots
    _effects: list[Any]
    _objects: ObjectExchange
    _lease: Lease
    _outbox: list[Body]
    _output_sizes: dict[int, int]
    """Of what was printed and is not acknowledged, by number of the message."""
    _retained: dict[int, list[ResultRun]]
    _handlers: dict[type, _Handler]
    _link: Link
    _welcomed: bool
    _output_waits: bool
    _goodbye_due: bool
    _lease_told: float
    _sent_at: float
    _acknowledge_at: float | None
    _host_store: StoreAttached | None
    _stop_at: float | None
    _lent: tuple[int, int, bool]
    def __init__(
        self,
        effects: list[Any],
        objects: ObjectExchange,
        lease: Lease,
        link: Link,
        suspends: bool,
        now: float,
    ) -> None: ...
    def handle(self, greetings: dict[type, _Handler], handlers: dict[type, _Handler]) -> None:
        """What to do with messages beside tasks: ``greetings`` are heard before Welcome, too."""

    def on_message(self, peer: bytes, envelope: Envelope, now: float) -> None: ...
    def on_processor_news(self, number: int, now: float) -> None:
        """Something is on its board."""

    def take_effects(self, now: float) -> list[Any]:
        """Once per drain: hand out tasks, send what has gathered, and give up the list of wishes."""

    def next_deadline(self) -> float | None: ...
    def _send(self, envelope: Envelope, now: float) -> None: ...
