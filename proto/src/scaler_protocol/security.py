"""Who may connect: the token file that peers of one user share, and where a scheduler may listen."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from scaler_protocol.address import Address, parse_address

TOKEN_FILE_NAME = "token"
_TOKEN_SIZE_BYTES = 32
_TOKEN_LIMIT_BYTES = 4096


def home_directory() -> Path:
    """$SCALER_HOME, or ~/.scaler."""
    configured = os.environ.get("SCALER_HOME")
    return Path(configured) if configured else Path.home() / ".scaler"


def read_token() -> bytes:
    """This user's token, or nothing when no scheduler of this user has made one yet. Raises PermissionError when the
    file is another user's or others may read it."""
    return read_private_file(home_directory() / TOKEN_FILE_NAME) or b""


def ensure_token() -> bytes:
    """This user's token, made when there is none. Two processes that make it at once get the same."""
    path = home_directory() / TOKEN_FILE_NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = read_private_file(path)
    if token:
        return token
    _create_token(path)
    return read_private_file(path) or b""


def check_bind_allowed(address: Address | str, insecure: bool) -> None:
    """Raises ValueError when other machines could reach ``address`` and nothing protects it."""
    parsed = parse_address(address) if isinstance(address, str) else address
    if parsed.is_local or insecure:
        return
    raise ValueError(
        f"{parsed} can be reached from other machines: set up CURVE keys (scaler_keygen DIR), "
        "or pass --insecure to let anyone on the network run code here."
    )


def read_private_file(path: Path) -> bytes | None:
    """The contents of a file that only this user can read; None when there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        _check_private(path, os.fstat(descriptor))
        return os.read(descriptor, _TOKEN_LIMIT_BYTES).strip()
    finally:
        os.close(descriptor)


def write_private_file(path: Path, data: bytes) -> None:
    """Make a file that only this user can read. Raises FileExistsError instead of replacing one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)


def _check_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user: set SCALER_HOME to a directory of your own.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{path} can be read by other users: run chmod 600 {path}.")


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
