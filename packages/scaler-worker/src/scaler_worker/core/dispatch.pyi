"""The effect that sends tasks to a worker process (contract; the code is in dispatch.pyx)."""

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import ObjectKey, Tasks

class DispatchTasks:
    """Send tasks to a worker process, after the objects that it has not seen yet."""

    number: int
    tasks: Tasks
    objects: list[ObjectKey]
    values: list[ResultRun] | None
    """Nodes of graphs: small values that these tasks need, in addition to results not yet harvested from the process.
    Those with sequences below ``watermark`` it may forget."""
    watermark: int
    def __init__(
        self,
        number: int,
        tasks: Tasks,
        objects: list[ObjectKey] | None = None,
        values: list[ResultRun] | None = None,
        watermark: int = 0,
    ) -> None: ...
