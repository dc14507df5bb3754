"""Who may connect: the token file that peers of one user share, and where a scheduler may listen."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import scheduler_keys
from scaler_protocol.private_file import read_private_file, write_private_file

TOKEN_FILE_NAME = "token"
_TOKEN_SIZE_BYTES = 32


def home_directory() -> Path:
    """$SCALER_HOME, or ~/.scaler."""
    configured = os.environ.get("SCALER_HOME")
    return Path(configured) if configured else Path.home() / ".scaler"


def read_token() -> bytes:
    """This user's token, or nothing when no scheduler of this user has made one yet. Raises PermissionError when the
    file is another user's or others may read it."""
    return read_private_file(home_directory() / TOKEN_FILE_NAME) or b""


def ensure_token() -> bytes:
    """This user's token, made when there is none. Two processes that make it at once get the same. Raises
    PermissionError as ``read_token`` does, and ValueError when it cannot be kept."""
    path = home_directory() / TOKEN_FILE_NAME
    return read_private_file(path) or _make_token(path)


def _make_token(path: Path) -> bytes:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create_token(path)
    except OSError as error:
        raise ValueError(
            f"The token that local peers show cannot be kept in {path.parent} ({error.strerror}): "
            "set SCALER_HOME to a folder of yours."
        ) from None
    return read_private_file(path) or b""


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
        f"{parsed} can be reached from other machines: set up CURVE keys (scaler_keygen DIR, then SCALER_KEYS=DIR), "
        "or pass --insecure to let anyone on the network run code here."
    )


def _create_token(path: Path) -> None:
    """Written beside and linked into place, so that nobody ever reads half a token."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    write_private_file(temporary, secrets.token_hex(_TOKEN_SIZE_BYTES).encode())
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
