"""Classes that are decorated with ``@remote``."""

from __future__ import annotations

from typing import Any


def actor_class(decorated: type, options: dict[str, Any]) -> Any:
    """The place where actors attach to this interface. There are none yet."""
    raise NotImplementedError(
        f"Cannot make the class {decorated.__name__} remote: scaler.compat.ray has no actors. Use remote functions, "
        "and pass state as arguments."
    )
