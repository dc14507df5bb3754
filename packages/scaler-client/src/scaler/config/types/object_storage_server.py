"""The address of an object store, which has no effect here: the store of each host starts by itself."""

from __future__ import annotations

from scaler.config.types.address import AddressConfig as ObjectStorageAddressConfig

__all__ = ["ObjectStorageAddressConfig"]
