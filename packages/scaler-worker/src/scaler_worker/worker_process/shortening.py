"""Exceptions that are too large to travel whole: their type stays, and the beginning and end of what they hold."""

from __future__ import annotations

import copy

import cloudpickle

PART_LIMIT_BYTES = 16 * 1024
"""Maximum size of each argument and attribute."""


def shortened(error: BaseException, size_bytes: int, limit_bytes: int) -> BaseException | None:
    """A copy without causes, which says in a note what was left out. None for what cannot be copied."""
    try:
        short = copy.copy(error)
        short.__cause__ = short.__context__ = short.__traceback__ = None
        short.args = tuple(_shortened_part(each) for each in short.args)
        for name, value in list(vars(short).items()):
            setattr(short, name, value if name == "__notes__" else _shortened_part(value))
        short.add_note(
            f"This exception takes {size_bytes:,} bytes, of which at most {limit_bytes:,} are sent: its arguments and "
            "attributes are cut."
        )
        return short
    except BaseException:
        return None


def _shortened_part(value: object) -> object:
    if isinstance(value, str):
        return _middle_cut(value, f"... ({len(value):,} characters) ...")
    if isinstance(value, (bytes, bytearray)):
        return _middle_cut(bytes(value), f"... ({len(value):,} bytes) ...".encode())
    size = _pickled_size(value)
    if size is not None and size <= PART_LIMIT_BYTES:
        return value
    held = f"{size:,} bytes" if size is not None else "it cannot be pickled"
    return f"<{type(value).__name__}, left out: {held}>"


def _middle_cut(value, mark):  # type: ignore[no-untyped-def]
    """Its beginning and its end."""
    if len(value) <= PART_LIMIT_BYTES:
        return value
    half = PART_LIMIT_BYTES // 2
    return value[:half] + mark + value[-half:]


def _pickled_size(value: object) -> int | None:
    try:
        return len(cloudpickle.dumps(value))
    except BaseException:
        return None
