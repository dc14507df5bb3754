"""The bodies that need no speed: everything but tasks, results and bodies without fields (see ``codec``)."""

from collections.abc import Sequence

from scaler_protocol.messages import Body, Envelope

BODIES: tuple[type[Body], ...]
"""The class of each union tag, in the order of the schema."""

class Unreadable(ValueError):
    """The received bytes are not a valid message."""

def write(envelope: Envelope) -> list[bytes]:
    """The frames of a message with a body of this module. Raises ValueError for what is out of range."""

def read(body_class: type[Body], frames: Sequence[bytes]) -> Envelope:
    """Raises Unreadable, whatever the bytes are. ``body_class`` is what the message's union tag says."""

def camel(name: str) -> str:
    """``worker_names`` is ``workerNames`` in a schema."""
