"""The transport of arguments of calls: small ones as bytes in the slots of their task, large ones by reference."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scaler.client.calls import Encoder
from scaler.client.future import REFERENCE_TYPES, FutureInArgument
from scaler.client.object_reference import ObjectReference
from scaler.client.serializer import PICKLE_PROTOCOL
from scaler.client.signatures import argument_labels, function_name
from scaler.core.outgoing import BATCH_LIMIT_BYTES
from scaler.core.uploads import Stored, Upload
from scaler.shell.client_io import ClientIO
from scaler.shell.client_store import PUSH_BYTES, is_same
from scaler.utility.exceptions import MissingObjects, ScalerError
from scaler_protocol.culprit import explained
from scaler_protocol.messages import INLINE_LIMIT_BYTES, ObjectKey
from scaler_protocol.objects.layout import ObjectLayout

Payload = bytes | ObjectLayout | Upload

_SMALL_SLOT_BYTES = 1024
_dumps = pickle.dumps


class Arguments:
    """Encodes arguments and places them in slots. A payload is bytes, a Layout (an object whose buffers have not been
    copied) or an Upload (an object that was sent before). A caller that gets an upload holds a use of it until
    ``let_go``."""

    def __init__(self, encoder: Encoder, client_io: ClientIO) -> None:
        self.plain_types = encoder.plain_types
        self._encoder = encoder
        self._encode = encoder.encode_argument
        self._encode_shared = encoder.encode_shared
        self._client_io = client_io

    def encode(self, values: Sequence[Any]) -> list[Any]:
        """One payload per value. For a reference this is its upload, without a use. Raises FutureInArgument for a
        future."""
        plain, encode, dumps, protocol = self.plain_types, self._encode, _dumps, PICKLE_PROTOCOL
        return [
            dumps(value, protocol)
            if type(value) in plain
            else encode(value)
            if type(value) not in REFERENCE_TYPES
            else self._special(value)
            for value in values
        ]

    def _special(self, value: Any) -> Upload:
        if type(value) is not ObjectReference:
            raise FutureInArgument("A future is an argument.")
        return self.upload_of(value)

    def explain(
        self, error: Exception, callable_: Callable[..., Any], values: Sequence[Any], keywords: Sequence[str]
    ) -> Exception:
        """The exception to raise instead of ``error``, which occurred while arguments of a call were encoded: it names
        the argument and the part of it that cannot be sent."""
        if isinstance(error, ScalerError):
            return error
        call = f"Cannot send a call of {function_name(callable_)}()"
        labels = argument_labels(callable_, len(values) - len(keywords), keywords)
        for label, value in zip(labels, values, strict=True):
            failure = self.error_of(value)
            if failure is not None and not isinstance(failure, FutureInArgument):
                return explained(failure, f"{call}: {label}", value, self._encoder.probe)
        return explained(error, call, None, None)

    def error_of(self, value: Any) -> Exception | None:
        """The exception that encoding ``value`` raises, or None."""
        try:
            if type(value) is ObjectReference:
                self.upload_of(value)
            else:
                (self._encoder.probe or self._encoder.encode)(value)
        except Exception as error:
            return error
        return None

    def encode_object(self, value: Any, is_shared: bool) -> bytes | ObjectLayout:
        """Like ``encode``, for an object that is sent by itself."""
        try:
            return self._encode_shared(value) if is_shared else self._encode(value)
        except Exception as error:
            raise explained(error, "Cannot send the object", value, self._encoder.probe) from None

    def upload_of(self, reference: ObjectReference) -> Upload:
        """The upload of a reference. Raises MissingObjects if it was cleared or belongs to another client."""
        upload = reference._upload
        if upload is None or not self._client_io.session.objects.owns(upload):
            raise MissingObjects(f"{reference!r} was cleared, or belongs to another client.")
        return upload

    # ---- slots -----------------------------------------------------------------------------------------------------

    def place(
        self, payloads: Sequence[Payload], held: list[Upload], soon: bool = False
    ) -> tuple[list[bytes | ObjectKey], list[Upload], int]:
        """Slots, the uploads among them, and the size of the slots. Large arguments go by reference, and so do those
        that are not small if a call has very many of them. The uses of new uploads are added to ``held``. ``soon``: the
        caller flushes the store before it sends the slots."""
        inline = [len(payload) for payload in payloads if len(payload) <= INLINE_LIMIT_BYTES]
        limit = INLINE_LIMIT_BYTES if sum(inline) <= BATCH_LIMIT_BYTES else _SMALL_SLOT_BYTES
        slots: list[bytes | ObjectKey] = []
        uploads: list[Upload] = []
        for payload in payloads:
            if not isinstance(payload, Upload) and len(payload) <= limit:
                slots.append(payload)  # type: ignore[arg-type]
                continue
            if not isinstance(payload, Upload):
                payload = self.upload_once(payload, held, soon)
            slots.append(payload.key)
            uploads.append(payload)
        return slots, uploads, sum(len(slot) for slot in slots if isinstance(slot, bytes)) + 24 * len(uploads)

    def slots_of(
        self, values: Sequence[Any], known_uploads: dict[int, Upload], held: list[Upload]
    ) -> tuple[list[bytes | ObjectKey], list[Upload], int]:
        """Like ``place``, for one of the calls of a map, which flushes the store before it sends them. An object that
        is an argument of several tasks travels once: ``known_uploads`` has the uploads of this map by the ``id`` of
        their object."""
        payloads: list[Payload] = []
        for value in values:
            known = known_uploads.get(id(value))
            usable = known is not None and self.hold(known, held)
            payloads.append(known if usable else self.encode((value,))[0])  # type: ignore[arg-type]
        if sum(map(len, payloads)) <= INLINE_LIMIT_BYTES:
            return payloads, [], sum(map(len, payloads))  # type: ignore[return-value]
        slots, uploads, size = self.place(payloads, held, soon=True)
        by_key = {upload.key: upload for upload in uploads}
        known_uploads.update(
            (id(value), by_key[slot]) for value, slot in zip(values, slots, strict=True) if slot in by_key
        )
        return slots, uploads, size

    # ---- uploads ---------------------------------------------------------------------------------------------------

    def upload(
        self, payload: bytes | ObjectLayout, held: list[Upload], is_shared: bool = False, soon: bool = False
    ) -> Upload:
        """Put a payload into the store of this host, or else send it to the scheduler. Adds its use to ``held``.
        ``is_shared``: the tasks of a worker process may share one loaded copy. ``soon``: the store is flushed later."""
        client_io = self._client_io
        with client_io.lock:
            key = client_io.session.objects.next_key(is_shared)
        try:
            place = client_io.objects.put(key, payload, soon)
            data: bytes | Stored
            data = self._keep(payload) if place is None else Stored(place.size, place.store, client_io.objects.get)
            with client_io.lock:
                client_io.check_usable()
                upload = client_io.session.objects.add(key, data)
            held.append(upload)
        except BaseException:
            self.discard([key])
            raise
        if not is_shared:  # a plain argument is private to its task
            client_io.objects.residents.add(payload, upload)
        return upload

    def upload_all(self, payloads: Sequence[bytes | ObjectLayout], held: list[Upload]) -> list[Upload]:
        """Like ``upload`` ``soon``, for many private arguments. Those of a map that are too small to be compared with
        others have much less to do together."""
        client_io = self._client_io
        objects = client_io.session.objects
        with client_io.lock:
            keys = [objects.next_key() for _ in payloads]
        try:
            store = client_io.objects.put_all(keys, payloads)
            if store is None:
                data: list[bytes | Stored] = [self._keep(payload) for payload in payloads]
            else:
                data = [Stored(len(payload), store, client_io.objects.get) for payload in payloads]
            with client_io.lock:
                client_io.check_usable()
                uploads = [objects.add(key, each) for key, each in zip(keys, data, strict=True)]
            held += uploads
        except BaseException:
            self.discard(keys)
            raise
        return uploads

    def _keep(self, payload: bytes | ObjectLayout) -> bytes | Stored:
        """An object that this client keeps itself, to push it, or to send it to the scheduler."""
        if len(payload) < PUSH_BYTES or not self._client_io.objects.can_push:
            return payload if isinstance(payload, bytes) else payload.to_bytes()
        content = payload if isinstance(payload, bytes) else payload.to_memory()
        return Stored(len(content), b"", lambda _: content)

    def discard(self, keys: Sequence[ObjectKey]) -> None:
        """Drop the uploads of a call that ended by an exception, so that no caller got them."""
        self._client_io.take_turn_shielded(lambda session: session.objects.discard(keys))
        self._client_io.objects.drop(keys)

    def upload_once(self, payload: bytes | ObjectLayout, held: list[Upload], soon: bool = False) -> Upload:
        """Like ``upload``, unless the same bytes are in the store already."""
        known = self._client_io.objects.residents.find(payload)
        if known is not None and self.hold(known, held):
            if is_same(known, payload):
                return known
            self.let_go([held.pop()])
        return self.upload(payload, held, soon=soon)

    def let_go(self, uploads: Iterable[Upload]) -> None:
        """End the caller's uses of these uploads."""
        with self._client_io.lock:
            for upload in uploads:
                self._client_io.session.objects.let_go(upload)

    def hold(self, upload: Upload, held: list[Upload]) -> bool:
        """Take a use of the upload. Returns False if it is not there any more."""
        with self._client_io.lock:
            if not self._client_io.session.objects.owns(upload):
                return False
            upload.uses += 1
        held.append(upload)
        return True
