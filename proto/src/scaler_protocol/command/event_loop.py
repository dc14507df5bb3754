"""The event loop of a command, by name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scaler_protocol.command.errors import BadInput

if TYPE_CHECKING:
    import asyncio

EVENT_LOOPS = ("builtin", "uvloop")


def new_event_loop(name: str) -> asyncio.AbstractEventLoop:
    """A new loop of this kind, not yet set as the current one; logs its name. BadInput when uvloop is not installed."""
    loop = _uvloop() if name == "uvloop" else _builtin()
    logging.info(f"use event loop: {name}")
    return loop


def _builtin() -> asyncio.AbstractEventLoop:
    from scaler_protocol.command.prompt_loop import PromptEventLoop  # not for callers that only name the loops

    return PromptEventLoop()


def _uvloop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        raise BadInput(
            "Cannot use --event-loop uvloop: the package uvloop is missing. Run pip install uvloop."
        ) from None
    return uvloop.new_event_loop()
