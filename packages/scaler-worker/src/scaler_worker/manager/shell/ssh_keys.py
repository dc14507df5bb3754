"""The keys that the workers on other hosts need."""

from __future__ import annotations

from pathlib import Path

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput
from scaler_protocol.keys import keys_directory, read_key, read_public_file


def keys_for_workers(address: str) -> dict[str, str]:
    """The contents of the key files by name: those of the role ``work``, and the public halves. Empty when $SCALER_KEYS
    names none. Raises BadInput."""
    directory = keys_directory()
    if directory is None or parse_address(address).scheme != "tcp":
        return {}
    try:
        secret = _work_key(directory)
        public = {path.name: read_public_file(path).decode() for path in sorted(directory.glob("*.pub"))}
        return {secret.name: read_key(secret).decode(), **public}
    except (OSError, ValueError) as error:
        raise BadInput(str(error)) from None


def _work_key(directory: Path) -> Path:
    """Never admin.key: the hosts need no such rights."""
    named = sorted(directory.glob("work-*.key"))
    usual = directory / "work.key"
    return named[0] if not usual.exists() and len(named) == 1 else usual
