"""What monitors are told, for programs."""

from __future__ import annotations

import zlib

from scaler.utility.exceptions import ScalerError
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.model import Model


def model_of(payload: bytes) -> Model:
    """The model of one snapshot, as the scheduler sends it to a client."""
    if not payload:
        raise ScalerError("The cluster is too large to be described in one message: watch its monitor address instead.")
    model = Model(0.0, task_limit=1)
    model.apply(feed.decode(zlib.decompress(payload)).message, 0.0)
    return model
