"""Results that the agent makes itself: of tasks that did not run to their end."""

from __future__ import annotations

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import Status
from scaler_worker.core.objects import Row


class OwnRows:
    def __init__(self) -> None:
        self.waiting: dict[tuple[bytes, int | None], list[Row]] = {}
        """The waiting rows by session and, while watched, worker; for reading."""

    def add(
        self,
        session: bytes,
        task: int,
        attempt: int,
        status: int,
        payload: bytes = b"",
        duration_us: int = 0,
        place: int | None = None,
    ) -> None:
        row = (task, attempt, int(status), payload, duration_us, duration_us, 0)
        self.waiting.setdefault((session, place), []).append(row)

    def add_run(self, run: TaskRun, status: Status, payload: bytes) -> None:
        """All its tasks end the same way."""
        for index in range(run.count):
            self.add(run.session, run.first_task + index, run.attempt, status, payload)

    def take(self) -> list[ResultRun]:
        runs = []
        for (session, place), rows in self.waiting.items():
            run = ResultRun(session, rows)
            if place is not None:
                run.set_place(place, bytes(4 * run.count))
            runs.append(run)
        self.waiting.clear()
        return runs
