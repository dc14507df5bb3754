"""The desktop monitor of Scaler. ``scaler_gui`` is a command; nothing here is meant to be imported by programs."""

from __future__ import annotations

__version__ = "1.0.0"
