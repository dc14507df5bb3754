"""One connection to the store, and what it must not take with it when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.core.object import Object
from scaler_protocol.objects.core.space import Extent


@dataclass(slots=True, eq=False)
class StorePeer:
    number: int
    segments: set[int] = field(default_factory=set)
    """The segments whose descriptor it has."""
    pins: dict[int, Object] = field(default_factory=dict)
    writing: dict[ObjectKey, Object] = field(default_factory=dict)
    region: Extent | None = None
