"""Reading the fields of a message, with their bounds and limits checked."""

__all__ = ["MalformedMessage"]

class MalformedMessage(ValueError):
    """The received frames are not a message of this protocol."""
