"""Directories that all processes of a user on a host share, each for as long as a process holds the lock next to it.

The kernel unlocks a file when the last process that has it open ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat

LOCK_SUFFIX = ".lock"


def make_private(root: str) -> None:
    """Code is imported from it, so no other user may write to it."""
    try:
        os.mkdir(root, 0o700)
    except FileExistsError:
        if not _is_private(root):
            raise PermissionError(
                f"Cannot use {root} for code: another user can write to it. Remove it, or set TMPDIR."
            ) from None


def _is_private(root: str) -> bool:
    """Return whether it is a directory, not a link to one, that no other user can write to. Raises OSError."""
    state = os.lstat(root)
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022


def lock(path: str, operation: int, create: int = os.O_CREAT) -> int | None:
    """The descriptor of the locked file. None: the file was removed meanwhile. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDWR | create | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, operation)
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def locked_names(root: str) -> list[str]:
    """Return the paths of the directories in ``root``, whether they are in use or not. If another user can write to
    ``root``, or has made a link in its place, there are none, because callers remove what they find."""
    try:
        names = os.listdir(root) if _is_private(root) else []
    except OSError:
        return []
    return [os.path.join(root, name.removesuffix(LOCK_SUFFIX)) for name in names if name.endswith(LOCK_SUFFIX)]


def remove_if_unused(path: str, lock_fd: int) -> bool:
    """Remove the directory ``path``, and what was left of attempts to make it, unless another process has its lock.
    The lock is released in any case. Returns whether it was removed."""
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_attempts(path)
        shutil.rmtree(path, ignore_errors=True)
        os.unlink(path + LOCK_SUFFIX)
        return True
    except OSError:
        return False  # another process uses it, or has removed it
    finally:
        os.close(lock_fd)


def remove_attempts(path: str) -> None:
    """Remove the directories ``path.*``; the caller has the lock for itself."""
    root, name = os.path.split(path)
    for each in os.listdir(root):
        if each.startswith(name + ".") and not each.endswith(LOCK_SUFFIX):
            shutil.rmtree(os.path.join(root, each), ignore_errors=True)
