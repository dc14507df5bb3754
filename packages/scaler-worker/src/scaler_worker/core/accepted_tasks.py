"""Tasks that the scheduler sends: they wait for the objects that they need, and then for a process. Some must end
first, because they are cancelled or because this agent cannot run them, and some return to the scheduler.

Tasks that need nothing but their function do not come here: the hot path queues them.
"""

from __future__ import annotations

from scaler_protocol.codec import TaskRun
from scaler_protocol.effects import Log
from scaler_protocol.messages import Cancel, CancelRefused, ObjectKey, ResultsReleased, Status, Withdraw, Withdrawn
from scaler_worker.core import held_tasks
from scaler_worker.core.actors import ENDED_TEXT
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.needed_objects import NeededObjects
from scaler_worker.core.state import AgentState


class AcceptedTasks:
    def __init__(self, state: AgentState, backend: ExecutionBackend, objects: NeededObjects) -> None:
        self._state = state
        self._backend = backend
        self._objects = objects

    def accept(self, run: TaskRun) -> None:
        """Accept tasks that need more than their function, or whose function is an object."""
        if not self._backend.has_environments and self._state.queue.environment_of(run):
            self._fail(run, Status.NO_WORKER, "Cannot use an environment: the task was placed in Symphony.")
        elif run.options.hosts_actor and not self._backend.hosts_actors:
            self._fail(run, Status.NO_WORKER, "Cannot make an actor: it was placed in Symphony, where none can be.")
        elif run.options.graph:
            self._accept_nodes(run)
        elif run.has_references and run.count > 1:
            for index in range(run.count):
                self._accept_one(run.slice(index, index + 1))
        else:
            self._accept_one(run)

    def _accept_one(self, run: TaskRun) -> None:
        keys = self._definitions_of(run)
        if keys is None:
            return
        if run.has_references:
            keys.extend(run.references())
        if not keys or self._state.objects.all_here(keys):
            held_tasks.queue_run(self._state, run)
        elif run.options.actor and not self._state.actors.expect_call(run):
            held_tasks.fail_run(self._state, run, Status.WORKER_DIED, ENDED_TEXT)
        else:
            self._objects.find(self._state.objects.require(run, keys))

    def _accept_nodes(self, run: TaskRun) -> None:
        """Nodes of a graph: they wait for values of others, here or elsewhere."""
        uploads = run.uploads() if run.has_references else []
        if uploads and run.count > 1:
            for index in range(run.count):
                self._accept_nodes(run.slice(index, index + 1))
            return
        keys = self._definitions_of(run)
        if keys is None:
            return
        keys.extend(uploads)
        if self._state.objects.all_here(keys):
            self._objects.find(held_tasks.add_nodes(self._state, run, False))
        else:
            self._objects.find(held_tasks.add_nodes(self._state, run, True))
            self._objects.find(self._state.objects.require(run, keys))
        if self._state.freed:
            self._objects.release_freed()

    def _definitions_of(self, run: TaskRun) -> list[ObjectKey] | None:
        """The objects that its function and serializer are, if they are. None: they are not known, the run failed."""
        function = self._state.functions.get(run.function)
        serializer = self._state.serializers.get(run.serializer) if run.serializer else None
        if function is None or (run.serializer and serializer is None):
            self._fail(run, Status.OBJECT_MISSING, f"The function {run.function_name} did not arrive.")
            return None
        keys = [] if function.payload else [ObjectKey(function.digest, 0)]
        if serializer is not None and not serializer.payload:
            keys.append(ObjectKey(serializer.digest, 0))
        packages = self._state.packages.key_of(run) if serializer is not None else None
        return keys if packages is None else [*keys, packages]

    def refuse(self, run: TaskRun, error: Exception) -> None:
        """End tasks that the agent failed to accept, so that those that came with them run all the same."""
        text = f"The agent of this host cannot take in the task: {type(error).__name__}: {error}"
        self._state.outbox.add(Log("ERROR", f"{run.function_name}: {text}"))
        self._fail(run, Status.NO_WORKER, text)

    def _fail(self, run: TaskRun, status: Status, text: str) -> None:
        held_tasks.fail_run(self._state, run, status, text.encode())

    def on_cancel(self, cancel: Cancel, now: float) -> None:
        if cancel.unstarted_only:
            refused = [self._backend.cancel_unstarted(column) for column in cancel.columns]
            self._state.unsent.append(CancelRefused(tuple(column for column in refused if column.tasks)))
            return
        for column in cancel.columns:
            self._backend.cancel(column, now)
            held_tasks.free_copies(self._state, column)
        self._objects.release_freed()

    def on_withdraw(self, withdraw: Withdraw, now: float) -> None:
        self._state.unsent.append(Withdrawn(tuple(self._backend.withdraw(withdraw.count))))

    def on_results_released(self, released: ResultsReleased, now: float) -> None:
        for sequence in released.sequences:
            self._state.retained.pop(sequence, None)
