"""One object, from the first request to write it until no process maps it any more."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.core.space import Extent


@dataclass(slots=True, eq=False)
class Object:
    """Written by ``writer`` until it is ``sealed`` by its ``author``; then in memory (``extent``), ``on_disk`` or both.
    ``moving``: its bytes are on their way to or from the disk. ``dropped``: it is in no table any more and goes with
    its last pin. ``published``: the directory has it, so its memory must not be used for anything else."""

    number: int
    key: ObjectKey
    size: int
    writer: int | None = None
    extent: Extent | None = None
    sealed: bool = False
    author: int = 0  # a peer; 0: the store itself
    on_disk: bool = False
    moving: bool = False
    dropped: bool = False
    published: bool = False
    pins: int = 0
    readers: list[int] = field(default_factory=list)  # peers that wait until it is back from the disk

    @property
    def is_idle(self) -> bool:
        """Nothing keeps its memory from being used otherwise, once its bytes are on disk."""
        return self.sealed and self.extent is not None and not (self.pins or self.moving or self.dropped)
