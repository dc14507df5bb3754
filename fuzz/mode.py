"""The two ways in which a process fuzzes."""

from __future__ import annotations

import enum

MUTANTS = 15
"""Tried in addition to each input of libFuzzer's, where many inputs count."""


class Mode(enum.StrEnum):
    """``GUIDED``: the branches of all code, Python's too, say which inputs are worth keeping. ``VOLUME``: only those of
    compiled code, and mutants are tried without asking."""

    GUIDED = "guided"
    VOLUME = "volume"
