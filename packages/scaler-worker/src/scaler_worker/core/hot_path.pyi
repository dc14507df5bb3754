"""The hot path of the agent: everything that is done for each message of tasks, for each result and at the end of each
turn (contract; the code is in hot_path.pyx). It is compiled, because the time of a lone task is mostly cost of calls.

Whatever happens more rarely is left to rules in Python. ``AgentRules`` and ``SlotsRules`` (core/hot_path_rules.py) name
all that the hot path asks of them; the state that both share is ``AgentState``.
"""

from collections.abc import Callable
from typing import Any

from scaler_protocol.messages import Envelope
from scaler_worker.core.durations import Durations
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.hot_path_rules import AgentRules, SlotsRules
from scaler_worker.core.prefetch import Prefetcher
from scaler_worker.core.roster import Roster
from scaler_worker.core.starts import Starts
from scaler_worker.core.state import AgentState
from scaler_worker.core.task_timeouts import Timeouts
from scaler_worker.core.worker_process import WorkerProcess

SCHEDULER: bytes
"""The name of the only peer, in effects."""

PING_SECONDS: float
LEASE_STEP_SECONDS: float
ACKNOWLEDGEMENT_SECONDS: float
"""The time after which a message of its own acknowledges what the scheduler sent: most often, results do so earlier."""

_Handler = Callable[[Any, float], None]

def send(state: AgentState, envelope: Envelope, now: float) -> None:
    """Send an envelope to the scheduler, at once."""

class SlotsHotPath:
    """Tasks to worker processes, and results from them."""

    lease_told: float
    """The lease that the worker processes know."""

    poll_at: float | None
    """The time at which unannounced results are looked for."""

    def __init__(
        self,
        state: AgentState,
        roster: Roster,
        durations: Durations,
        prefetcher: Prefetcher,
        starts: Starts,
        timeouts: Timeouts,
        rules: SlotsRules,
        suspends: bool,
    ) -> None:
        """``suspends``: worker processes with blocked tasks are stopped while others use all slots."""

    def turn(self, now: float, may_start: bool) -> None:
        """Start missing worker processes, at the end of each turn, and, if ``may_start``, give each one the tasks it
        needs, as long as there are any."""

    def harvest_number(self, number: int, now: float) -> None:
        """Take the results of the worker process with this number, if there is one."""

    def on_news(self, number: int, now: float) -> None:
        """Take the results of this worker process, which has told of some, and of all that are busy: they then need not
        tell of theirs so soon."""

    def harvest(self, process: WorkerProcess, now: float) -> None:
        """Take its results."""

    def next_deadline(self) -> float | None: ...

class AgentHotPath:
    """Messages from the scheduler, and results to it."""

    def __init__(
        self,
        state: AgentState,
        backend: ExecutionBackend,
        rules: AgentRules,
        greetings: dict[type, _Handler],
        handlers: dict[type, _Handler],
    ) -> None:
        """``greetings`` handle messages that may precede Welcome; ``handlers`` all others except Tasks."""

    def turn(self, now: float) -> None:
        """Something has happened. Notices when this process has been stopped for so long that its lease may be over."""

    def on_message(self, peer: bytes, envelope: Envelope, now: float) -> None: ...
    def take_effects(self, now: float) -> list[Any]:
        """End the turn: start tasks, send what has gathered, and return the effects."""

    def next_deadline(self) -> float | None: ...
