"""Permissions to connect: the token file that the peers of one user share, and the addresses at which a scheduler may
listen."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from scaler_protocol.address import Address, parse_address
from scaler_protocol.command.descriptors import is_lack_of_descriptors
from scaler_protocol.keys import scheduler_keys
from scaler_protocol.private_file import create_private_file, read_private_file, sync_directory

TOKEN_FILE_NAME = "token"
_TOKEN_SIZE_BYTES = 32
_TOKEN = re.compile(rb"[0-9A-Fa-f]{64}")


def home_directory() -> Path:
    """$SCALER_HOME, or ~/.scaler. Raises ValueError, with a sentence, when this user has no home."""
    configured = os.environ.get("SCALER_HOME")
    try:
        return Path(configured) if configured else Path.home() / ".scaler"
    except RuntimeError:
        raise ValueError(
            f"Cannot find the home directory of user {os.getuid()}, who has none here. Set SCALER_HOME to a writable "
            "directory."
        ) from None


def is_token(token: bytes) -> bool:
    """Return whether these are exactly 64 hexadecimal characters."""
    return _TOKEN.fullmatch(token) is not None


def read_token() -> bytes:
    """This user's token, or nothing when there is none yet. Raises PermissionError when the file belongs to another
    user or others may read it, and ValueError when it contains anything but a token."""
    path = home_directory() / TOKEN_FILE_NAME
    token = read_private_file(path)
    if token is None:
        return b""
    if not is_token(token):
        raise ValueError(
            f"Cannot use the token in {path}: it is not 64 hexadecimal characters. "
            "Stop your schedulers, workers and clients, and delete the file: the next one that starts"
            " creates a new token."
        )
    return token


def ensure_token() -> bytes:
    """This user's token, made when there is none. Two processes that make it at once get the same. Raises as
    ``read_token`` does, and ValueError when it cannot be read or kept."""
    path = home_directory() / TOKEN_FILE_NAME
    try:
        return read_token() or _make_token(path)
    except OSError as error:
        if error.errno is None or is_lack_of_descriptors(error):  # the former is a sentence of private_file's
            raise
        raise ValueError(
            f"Cannot keep the token of this user in {path.parent}: {error.strerror}. "
            "Set SCALER_HOME to a writable directory."
        ) from None


def _make_token(path: Path) -> bytes:
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(path.parent.parent)
    create_private_file(path, secrets.token_hex(_TOKEN_SIZE_BYTES).encode())
    return read_token()


def check_bind_allowed(address: Address | str, insecure: bool) -> None:
    """Raises ValueError when other machines could reach ``address`` and nothing protects it, or when $SCALER_KEYS names
    keys that cannot be used."""
    parsed = parse_address(address) if isinstance(address, str) else address
    try:
        keys = scheduler_keys(parsed)
    except OSError as error:
        raise ValueError(str(error)) from error
    if parsed.is_local or insecure or keys is not None:
        return
    raise ValueError(
        f"Cannot listen on {parsed}: other machines can reach it. Set up CURVE keys (scaler_keygen DIR, then "
        "SCALER_KEYS=DIR), or pass --insecure to let anyone on the network run code here."
    )
