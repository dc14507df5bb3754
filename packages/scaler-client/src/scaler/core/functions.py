"""Functions as they travel, and the shapes of the calls made to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.ids import digest
from scaler_protocol.messages import INLINE_LIMIT_BYTES, FunctionDefinition, TaskOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaler.core.ranges import FutureRange
    from scaler_protocol.codec import TaskRunBuilder


class Function:
    """A serialized function (or serializer). ``payload`` is kept as long as a task may have to be stated again.
    ``usual_shapes`` are those with the client's own options, by number of arguments or by that and keyword names."""

    __slots__ = ("digest", "name", "payload", "definition", "shapes", "usual_shapes")

    def __init__(self, name: str, payload: bytes) -> None:
        self.digest = digest(payload)
        self.name = name
        self.payload = payload
        inline = payload if len(payload) <= INLINE_LIMIT_BYTES else b""
        self.definition = FunctionDefinition(self.digest, name, inline, len(payload))
        self.shapes: dict[object, Shape] = {}
        self.usual_shapes: dict[object, Shape] = {}

    @property
    def is_large(self) -> bool:
        return len(self.payload) > INLINE_LIMIT_BYTES


class Shape:
    """What the tasks of one run share. ``open`` is the run that is being collected, if any; ``new_builder`` makes an
    empty one, once the session has said how."""

    __slots__ = ("function", "arity", "keywords", "options", "open", "new_builder")

    def __init__(self, function: Function, arity: int, keywords: tuple[str, ...], options: TaskOptions) -> None:
        self.function = function
        self.arity = arity
        self.keywords = keywords
        self.options = options
        self.open: FutureRange | None = None
        self.new_builder: Callable[[], TaskRunBuilder] | None = None
