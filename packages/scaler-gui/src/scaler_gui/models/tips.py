"""Tooltips of texts that others wrote."""

from __future__ import annotations

import html


def plain_tip(text: str) -> str:
    """Return a text for a tooltip, which Qt would otherwise read as HTML if it looks like that: a function's name
    may."""
    return f'<span style="white-space: pre">{html.escape(text)}</span>' if "<" in text else text
