"""Objects that tasks of this host need: they are looked for, arrive, and are released.

| An object | is looked for |
|---|---|
| argument, large value | in the host's store, then in a store that the scheduler names, then at the scheduler |
| the same, without a store | at the scheduler |
| function, serializer | at the scheduler |
| packages of an environment | nowhere: the agent has them installed |

Values of an agent that leaves (KeepValues) are looked for like others, and ObjectStored says that they are here.
Tasks run when the last object that they wait for is here, and fail if one is nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    UPLOAD_NUMBER,
    KeepValues,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectStored,
    Status,
    StoreAttached,
    StoreStatus,
)
from scaler_worker.core import held_tasks
from scaler_worker.core.effects import DropStored, FetchStored, FindStored, ForgetOwner, JoinStore
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.objects import WrongBytes
from scaler_worker.core.packages import key_of
from scaler_worker.core.state import AgentState

LOST_PER_MESSAGE = 4096
NO_STORE = bytes(16)
"""The store of an object that the agent keeps itself."""


class NeededObjects:
    def __init__(self, state: AgentState, backend: ExecutionBackend) -> None:
        self._state = state
        self._backend = backend
        self._cluster = b""
        self._fetched: dict[ObjectKey, int] = {}  # sizes of objects that the host's store reads from others
        self._promised: set[ObjectKey] = set()  # values that the scheduler has asked it to keep, on their way

    def find(self, keys: list[ObjectKey]) -> None:
        """Find objects that tasks here need: in the host's store, or else through the scheduler. Functions
        always come through the scheduler."""
        keys = self._state.packages.ask(keys)
        stored = [key for key in keys if key.number] if self._cluster else []
        if stored:
            self._state.outbox.add(FindStored(stored))
        self._state.unsent.extend(ObjectRequest(key) for key in keys if not (stored and key.number))

    def on_object_chunk(self, chunk: ObjectChunk, now: float) -> None:
        try:
            ready, credit = self._state.objects.on_chunk(chunk)
        except WrongBytes as error:
            self._refuse_chunks(chunk.key, str(error), now)
        except (OSError, OverflowError) as error:
            text = f"This host has no room for an object of {chunk.size:,} bytes: {error}."
            self._refuse_chunks(chunk.key, text, now)
        else:
            if credit is not None:
                self._state.unsent.append(credit)
            self._take_ready(ready)

    def _refuse_chunks(self, key: ObjectKey, text: str, now: float) -> None:
        """No more of this object must be sent: the tasks that need it fail."""
        self._state.unsent.append(ObjectCredit(key, CREDIT_WITHOUT_END))
        self.on_object_missing(ObjectMissing(key, text), now)

    def _take_ready(self, ready: list[TaskRun]) -> None:
        for run in ready:
            held_tasks.objects_here(self._state, run)
        for key in self._state.objects.take_arrived():
            if not held_tasks.value_arrived(self._state, key):
                self._release([key])
            elif key in self._promised:
                self._report_kept(key)

    def on_object_missing(self, missing: ObjectMissing, now: float) -> None:
        self._promised.discard(missing.key)
        self._take_ready(self._state.objects.take_made(missing.key))
        for run in self._state.objects.on_missing(missing.key, missing.is_made_again):
            held_tasks.fail_run(self._state, run, Status.OBJECT_MISSING, missing.text.encode())
        if missing.key.owner in self._state.nodes:
            held_tasks.value_missing(self._state, missing.key)
        if self._state.objects.is_awaited(missing.key):
            self._state.unsent.append(ObjectRequest(missing.key, waits=True))

    def on_object_locations(self, locations: ObjectLocations, now: float) -> None:
        key = locations.key
        if not self._state.objects.is_wanted(key):
            self._state.unsent.append(ObjectCredit(key, CREDIT_WITHOUT_END))
        elif not self._cluster:
            self._state.unsent.append(ObjectRequest(key, relayed=True))
        else:
            self._state.objects.on_located(key)
            self._fetched[key] = locations.size
            self._state.outbox.add(FetchStored(key, locations.size, locations.sources))

    # ---- objects that are not needed any more -----------------------------------------------------------------

    def on_object_release(self, release: ObjectRelease, now: float) -> None:
        values = [key for key in release.keys if key.owner in self._state.nodes and key.number < UPLOAD_NUMBER]
        if values:  # large results that are kept here like values of nodes
            held_tasks.forget_values(self._state, values)
            for key in values:
                self._state.objects.give_up(key)
        self._release(release.keys)
        if release.client:
            self._forget(self._state.objects.all_of(release.client))
            if self._cluster:  # the store decides what it drops: the client may only have been away for too long
                self._state.outbox.add(ForgetOwner(release.client))

    def release_freed(self) -> None:
        """Release large values that are no longer needed."""
        freed, self._state.freed[:] = self._state.freed[:], []
        for key in freed:
            self._state.objects.give_up(key)
        self._release(freed)

    def _release(self, keys: Sequence[ObjectKey]) -> None:
        stored = self._forget(keys)
        if stored:
            self._drop_stored(stored)

    def _forget(self, keys: Sequence[ObjectKey]) -> list[ObjectKey]:
        """Return those that the host's store has."""
        self._promised.difference_update(keys)
        stored = [key for key in keys if self._state.objects.release(key)]
        for key in keys:
            if key.number == 0:
                self._state.functions.pop(key.owner, None)
                self._state.serializers.pop(key.owner, None)
                environment = self._state.queue.environments.pop(key.owner, None)
                if environment is not None:
                    self._state.packages.forget(environment)
        self._backend.forget_objects(keys)
        return stored

    def _drop_stored(self, keys: list[ObjectKey]) -> None:
        """One message to the store drops many objects."""
        last = self._state.outbox.last()
        if isinstance(last, DropStored):
            last.keys.extend(keys)
        else:
            self._state.outbox.add(DropStored(keys))

    # ---- values of agents that leave -------------------------------------------------------------------------

    def on_keep_values(self, order: KeepValues, now: float) -> None:
        """Another agent leaves: keep its values. An object of a client is not a value: if it were kept as one, it would
        be dropped like one, together with the tasks that wait for it."""
        if not self._state.accepting:
            return
        keys = [key for key in order.keys if 0 < key.number < UPLOAD_NUMBER]
        here, wanted = self._state.nodes.keep(keys)
        self._promised.update(keys)
        for key in here:
            self._report_kept(key)
        self.find(self._state.objects.fetch(wanted))

    def _report_kept(self, key: ObjectKey) -> None:
        self._promised.discard(key)
        self._state.unsent.append(ObjectStored(key, 0, NO_STORE))

    # ---- the host's store ------------------------------------------------------------------------------------

    def join_store(self, cluster: bytes) -> None:
        """Use the store of this host that belongs to the cluster of the scheduler."""
        if cluster != self._cluster:
            self._cluster = cluster
            self._state.outbox.add(JoinStore(cluster))

    def on_store_status(self, status: StoreStatus, now: float) -> None:
        """The host's store is connected, and says what it has."""
        attached = StoreAttached(status.store, status.endpoint)
        if attached != self._state.host_store:
            self._state.host_store = attached
            self._state.unsent.append(attached)
        if status != self._state.store_status:
            self._state.store_status = status
            self._state.unsent.append(status)

    def on_store_lost(self, now: float) -> None:
        """It has died, and with it what it held."""
        self._state.host_store = self._state.store_status = None
        lost = self._state.objects.take_lost()
        held_tasks.forget_values(self._state, [key for key in lost if key.number < UPLOAD_NUMBER])
        self._backend.forget_objects(lost)
        for start in range(0, len(lost), LOST_PER_MESSAGE):
            self._state.unsent.append(ObjectsLost(tuple(lost[start : start + LOST_PER_MESSAGE])))
        for run in self._backend.hold_back_calls(frozenset(lost)):
            self.find(self._state.objects.require(run, run.references()))

    def on_stored(self, key: ObjectKey, now: float) -> None:
        """It is in the host's store."""
        size = self._fetched.pop(key, None)
        if size is not None and not self._state.objects.is_wanted(key):
            self._drop_stored([key])
            self._state.unsent.append(ObjectCredit(key, CREDIT_WITHOUT_END))
        elif size is not None and self._state.host_store is not None:
            self._promised.discard(key)
            self._state.unsent.append(ObjectStored(key, size, self._state.host_store.store))
        self._take_ready(self._state.objects.on_found(key))

    def on_not_stored(self, key: ObjectKey, relayed: bool, now: float) -> None:
        """The host's store does not have it; ``relayed``: nor could it get it from others."""
        self._fetched.pop(key, None)
        if self._state.objects.is_wanted(key):
            self._state.unsent.append(ObjectRequest(key, relayed))

    # ---- packages of environments ----------------------------------------------------------------------------

    def on_packages_installed(self, requirements: tuple[str, ...], now: float) -> None:
        """Tasks may use these packages."""
        self._take_ready(self._state.objects.on_here(key_of(requirements)))

    def on_packages_failed(self, requirements: tuple[str, ...], text: str, now: float) -> None:
        """The tasks that wait for these packages fail. For later tasks it is tried again."""
        for run in self._state.objects.on_missing(key_of(requirements)):
            held_tasks.fail_run(self._state, run, Status.NO_WORKER, text.encode())
