"""Objects of this host that others have requested: the agent sends small values itself, and names the host's store as
the place of those that are there. If that store cannot be reached, their bytes go through the scheduler."""

from __future__ import annotations

from scaler_protocol.messages import ObjectChunk, ObjectCredit, ObjectKey, ObjectLocations, ObjectMissing, ObjectRequest
from scaler_worker.core.effects import ReadStored
from scaler_worker.core.state import AgentState


class RequestedObjects:
    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._relayed: dict[ObjectKey, bool] = {}  # requests of what is in the store: must the bytes be sent from here?

    def on_object_request(self, request: ObjectRequest, now: float) -> None:
        key = request.key
        value = self._state.nodes.value(key)
        if value is not None:
            self._state.unsent.append(ObjectChunk(key, len(value), 0, value))
        elif self._state.objects.is_stored(key):
            self._relayed[key] = (
                request.relayed or self._state.host_store is None or not self._state.host_store.endpoint
            )
            self._state.outbox.add(ReadStored(key))
        else:
            self._answer_request(key, self._state.objects.on_request(key))

    def _answer_request(self, key: ObjectKey, chunks: list[ObjectChunk] | None) -> None:
        if chunks is None:
            self._state.unsent.append(ObjectMissing(key, "The worker that held this result no longer has it."))
        else:
            self._state.unsent.extend(chunks)

    def on_object_credit(self, credit: ObjectCredit, now: float) -> None:
        self._state.unsent.extend(self._state.objects.on_credit(credit))

    def on_stored_view(self, key: ObjectKey, view: memoryview | None, now: float) -> None:
        """The bytes of an object that was requested; None: the store does not have it."""
        relayed = self._relayed.pop(key, True)
        if view is None or relayed or self._state.host_store is None:
            self._answer_request(key, None if view is None else self._state.objects.begin(key, view))
        else:
            self._state.unsent.append(ObjectLocations(key, len(view), (self._state.host_store.endpoint,)))
