"""The effects of the store's core: plain values, carried out in order."""

from __future__ import annotations

from typing import Any, Union

from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.core.space import Extent
from scaler_protocol.value import value


@value(frozen=True, slots=True)
class StoreAnswer:
    """Send ``body`` to a peer, with the descriptor of ``segment`` when that is new to it."""

    peer: int
    body: Any
    segment: int | None = None


@value(frozen=True, slots=True)
class MakeSegment:
    number: int
    size: int


@value(frozen=True, slots=True)
class CloseSegment:
    number: int


@value(frozen=True, slots=True)
class Punch:
    """Give the memory of these pages back to the system."""

    extent: Extent


@value(frozen=True, slots=True)
class Publish:
    """Enter an object into the directory: peers may copy it from there without a question."""

    key: ObjectKey
    extent: Extent
    size: int


@value(frozen=True, slots=True)
class Unpublish:
    """Remove an object from the directory, before its memory is used for something else."""

    key: ObjectKey


@value(frozen=True, slots=True)
class Spill:
    """Write an object to its file in the background; then ``on_spilled``."""

    number: int
    extent: Extent
    size: int


@value(frozen=True, slots=True)
class Load:
    """Read an object from its file in the background; then ``on_loaded``."""

    number: int
    extent: Extent
    size: int


@value(frozen=True, slots=True)
class RemoveFile:
    number: int


@value(frozen=True, slots=True)
class OpenSource:
    """Connect to the store that serves at this endpoint; then ``on_source_welcomed``, each time it is connected."""

    endpoint: str


@value(frozen=True, slots=True)
class CloseSource:
    endpoint: str


@value(frozen=True, slots=True)
class AskSource:
    endpoint: str
    body: Any


@value(frozen=True, slots=True)
class SendPiece:
    """Send a chunk of an object of ``size`` bytes to another store. ``direct``: on the bulk connection; then
    ``on_piece_sent``."""

    peer: int
    key: ObjectKey
    extent: Extent
    size: int
    offset: int
    length: int
    direct: bool = False


Effect = Union[
    StoreAnswer, MakeSegment, CloseSegment, Punch, Spill, Load, RemoveFile, OpenSource, CloseSource, AskSource,
    SendPiece,
]  # fmt: skip

DirectoryChange = Union[Publish, Unpublish]
