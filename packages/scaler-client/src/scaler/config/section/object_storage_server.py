"""Settings of an object store."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class ObjectStorageServerConfig(EffectlessSettings):
    """Has no effect: the store of each host starts by itself."""
