from typing import Any

from scaler_protocol.messages import FunctionDefinition, TaskName
from scaler_protocol.result_run import ResultRun
from scaler_protocol.task_run import TaskRun

class Tasks:
    """Client to scheduler, scheduler to agent, agent to worker process. Functions ride with their first batch per
    host."""

    runs: list[TaskRun]
    functions: list[FunctionDefinition]
    serializers: list[FunctionDefinition]
    resubmitted: bool  # a client states again, to a new epoch, what an earlier scheduler had accepted
    parent: TaskName | None  # the task that the nested client lives in from here on; None: as before
    def __init__(
        self,
        runs: list[TaskRun],
        functions: list[FunctionDefinition] = ...,
        serializers: list[FunctionDefinition] = ...,
        resubmitted: bool = False,
        parent: TaskName | None = None,
    ) -> None: ...

class Results:
    """Worker process to agent, agent to scheduler, scheduler to client."""

    runs: list[ResultRun]
    def __init__(self, runs: list[ResultRun]) -> None: ...

class Envelope:
    """A body on a link. ``sequence`` 0: unnumbered. ``acknowledged``: highest sequence received from the other side."""

    body: Any  # a Body; the handler of a class of body knows which
    sequence: int
    acknowledged: int
    def __init__(self, body: Any, sequence: int = 0, acknowledged: int = 0) -> None: ...

class Send:
    """Send ``envelope`` to ``peer``. If the transport cannot take it, drop it: the link replays it."""

    peer: bytes
    envelope: Envelope
    def __init__(self, peer: bytes, envelope: Envelope) -> None: ...
