"""Whole messages: whatever the frames are, decoding gives an envelope or MalformedMessage.

An envelope can be looked at, written and read again, and is the same then.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.messages import check_written_again, data_of, decoded, examine, frames_of, sample_envelopes
from scaler_protocol.codec import encode


def one_input(data: bytes) -> None:
    envelope = decoded(frames_of(data))
    if envelope is not None:
        examine(envelope)
        check_written_again(envelope)


def seeds() -> Iterator[bytes]:
    for envelope in sample_envelopes():
        yield data_of(encode(envelope))
