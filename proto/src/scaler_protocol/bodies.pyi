"""The bodies that need no speed: everything but tasks, results and bodies without fields (see ``codec``)."""

from collections.abc import Sequence

from scaler_protocol.messages import Body, Envelope

BODIES: tuple[type[Body], ...]
"""The class of each union tag, in the order of the schema."""

def write(envelope: Envelope) -> list[bytes]:
    """The frames of a message with a body of this module. Raises ValueError for what is out of range."""

def read(body_class: type[Body], frames: Sequence[bytes]) -> Envelope:
    """Read a message whose union tag stands for ``body_class``. Raises ``fields.MalformedMessage`` for any others."""

def camel(name: str) -> str:
    """``worker_names`` is ``workerNames`` in a schema."""
