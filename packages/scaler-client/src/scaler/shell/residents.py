"""Large arguments that are in the host's store already: the same one passed again does not travel again."""

from __future__ import annotations

from hashlib import blake2b
from weakref import WeakValueDictionary

from scaler.core.uploads import Upload
from scaler_protocol.objects.comparison import same
from scaler_protocol.objects.layout import Layout

LEAST_BYTES = 1024 * 1024
"""Smaller ones are not worth a look."""

_SAMPLES = 16
_SAMPLE_BYTES = 64


class Residents:
    """A few samples of the bytes find what may be the same; then all bytes are compared, which costs less than a
    digest."""

    def __init__(self) -> None:
        self._by_samples: WeakValueDictionary[bytes, Upload] = WeakValueDictionary()

    def find(self, payload: bytes | Layout) -> Upload | None:
        """What may be the same."""
        return self._by_samples.get(_samples(payload)) if len(payload) >= LEAST_BYTES else None

    def add(self, payload: bytes | Layout, upload: Upload) -> None:
        if len(payload) >= LEAST_BYTES and upload.stored is not None:
            self._by_samples[_samples(payload)] = upload


def is_same(upload: Upload, payload: bytes | Layout) -> bool:
    """Whether these are the bytes of ``upload``, which its caller holds a use of."""
    content = upload.content()
    if content is None or upload.size != len(payload):
        return False
    view = memoryview(content)
    return all(same(view[offset : offset + len(part)], part) for offset, part in _parts(payload))


def _parts(payload: bytes | Layout) -> list[tuple[int, memoryview]]:
    return [(0, memoryview(payload))] if isinstance(payload, bytes) else payload.parts()


def _samples(payload: bytes | Layout) -> bytes:
    digest = blake2b(len(payload).to_bytes(8, "little"), digest_size=16)
    for _, part in _parts(payload):
        step = max(_SAMPLE_BYTES, len(part) // _SAMPLES)
        for start in range(0, len(part), step):
            digest.update(part[start : start + _SAMPLE_BYTES])
    return digest.digest()
