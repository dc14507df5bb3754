"""The objects that a client keeps for its tasks and references."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from scaler.core.effects import DropStoredObjects, PushObject
from scaler.core.outgoing import Outgoing
from scaler.core.runs import AnyRange
from scaler.core.uploads import Stored, Upload
from scaler_protocol.messages import (
    PRIVATE_UPLOAD_NUMBER,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRequest,
)


class KeptObjects:
    """``uploads`` has the objects in use, by key. ``dropped`` has those whose reference was collected."""

    def __init__(self, session: bytes, outgoing: Outgoing) -> None:
        self.uploads: dict[ObjectKey, Upload] = {}
        self.dropped: deque[Upload] = deque()
        self._session = session
        self._outgoing = outgoing
        self._next_private_number = 2**64 - 1
        self._next_shared_number = PRIVATE_UPLOAD_NUMBER - 1

    def next_key(self, is_shared: bool = False) -> ObjectKey:
        """The key of the next object. ``is_shared``: the tasks of a worker process may share one loaded copy."""
        if is_shared:
            self._next_shared_number -= 1
            return ObjectKey(self._session, self._next_shared_number + 1)
        self._next_private_number -= 1
        return ObjectKey(self._session, self._next_private_number + 1)

    def add(self, key: ObjectKey, data: bytes | Stored) -> Upload:
        """Add an object for tasks that are submitted later. The caller holds a use of it. The object is in this host's
        store, or its first chunk leaves before the tasks."""
        upload = Upload(key, data, self.dropped)
        upload.uses = 1
        self.uploads[key] = upload
        self._outgoing.waiting.append(upload)
        return upload

    def refer(self, entry: AnyRange, index: int, uploads: list[Upload]) -> None:
        """Let a task use these uploads until it ends."""
        entry.references[index] = uploads
        for upload in uploads:
            upload.uses += 1

    def unrefer(self, entry: AnyRange, index: int) -> None:
        for upload in entry.references.pop(index, ()):
            self.let_go(upload)

    def let_go(self, upload: Upload) -> None:
        """End one use."""
        upload.uses -= 1
        if not upload.uses and self.uploads.pop(upload.key, None) is not None:
            self._outgoing.releases.append(upload.key)
            self._forget(upload)

    def discard(self, keys: Sequence[ObjectKey]) -> None:
        """Drop objects whose sender was interrupted, so that nothing uses them."""
        for upload in [self.uploads[key] for key in keys if key in self.uploads]:
            upload.uses = 1
            self.let_go(upload)

    def owns(self, upload: Upload) -> bool:
        return self.uploads.get(upload.key) is upload

    def _forget(self, upload: Upload) -> None:
        if upload.stored is not None:
            self._drop_stored(upload.key)
        upload.let_go()

    def _drop_stored(self, key: ObjectKey) -> None:
        """One message to the store drops many objects."""
        effects = self._outgoing.effects
        if effects and isinstance(effects[-1], DropStoredObjects):
            effects[-1].keys.append(key)
        else:
            effects.append(DropStoredObjects([key]))

    def on_request(self, request: ObjectRequest, now: float) -> None:
        """Send the bytes to a worker that cannot reach this host's store."""
        upload = self.uploads.get(request.key)
        if upload is not None and upload.begin():
            self._outgoing.uploads.add(upload)
        else:
            text = "Its owner has dropped it, or its store has died."
            self._outgoing.waiting.append(ObjectMissing(request.key, text))

    def on_locations(self, locations: ObjectLocations, now: float) -> None:
        """Push the bytes to the store of a worker's host, which requests them."""
        upload = self.uploads.get(locations.key)
        data = upload.content() if upload is not None else None
        if data is not None:
            pushes = [PushObject(locations.key, data, endpoint) for endpoint in locations.sources]
            self._outgoing.effects.extend(pushes)

    def on_credit(self, credit: ObjectCredit, now: float) -> None:
        upload = self.uploads.get(credit.key)
        if upload is None:
            return
        upload.grant(credit.offset)
        if upload.has_more:
            self._outgoing.uploads.add(upload)
        self.forget_sent(upload)

    def forget_sent(self, upload: Upload) -> None:
        """Forget a function that was sent completely. If it is needed again, it is made from its definition."""
        if upload.is_function and upload.complete:
            self.uploads.pop(upload.key, None)

    def restart(self) -> None:
        self._outgoing.uploads.clear()
        self.uploads = {key: upload for key, upload in self.uploads.items() if not upload.is_function}
        for upload in self.uploads.values():
            upload.restart()
            self._outgoing.waiting.append(upload)

    def forget_dropped(self) -> None:
        while self.dropped:
            upload = self.dropped.popleft()
            if not upload.dropped:
                upload.dropped = True
                self.let_go(upload)

    def clear(self) -> None:
        for upload in self.uploads.values():
            self._forget(upload)
        self.uploads.clear()
        self._outgoing.uploads.clear()

    def check(self) -> None:
        for key, upload in self.uploads.items():
            assert upload.key == key and (upload.is_function or upload.uses > 0), key
