"""The objects that an agent keeps itself, which came in chunks or from processes without a store: anonymous memory
files, handed to worker processes as descriptors."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass

from scaler_protocol.messages import ObjectKey
from scaler_worker.worker_process.channel import RESULT_SEALS, ChannelError


@dataclass(slots=True)
class _File:
    fd: int
    size: int


class MemoryFileStore:
    """``drain(number)`` reads what a worker process has sent: its large results come apart from their records."""

    def __init__(self, drain: Callable[[int], None]) -> None:
        self._drain = drain
        self._files: dict[ObjectKey, _File] = {}
        self._results: dict[tuple[int, int], _File] = {}

    def create(self, key: ObjectKey, size: int) -> None:
        self.drop(key)
        fd = os.memfd_create("scaler-object", os.MFD_CLOEXEC)
        os.ftruncate(fd, size)
        self._files[key] = _File(fd, size)

    def write(self, key: ObjectKey, offset: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._files[key].fd, view, offset)
            view, offset = view[written:], offset + written

    def read(self, key: ObjectKey, offset: int, size: int) -> bytes:
        return os.pread(self._files[key].fd, size, offset)

    def size(self, key: ObjectKey) -> int | None:
        file = self._files.get(key)
        return file.size if file is not None else None

    def fd(self, key: ObjectKey) -> int:
        return self._files[key].fd

    def add_result(self, number: int, sequence: int, fd: int, size: int) -> None:
        """A process sent a large result; its record on the board follows. Raises ChannelError when ``fd``, which is
        closed then, is not what it should be: reading it might fail, or never end."""
        if (number, sequence) in self._results or not _is_sealed(fd, size):
            os.close(fd)
            raise ChannelError("a large result came twice, or not as a sealed memory file")
        self._results[number, sequence] = _File(fd, size)

    def catch_up(self, number: int) -> None:
        self._drain(number)

    def name_result(self, number: int, sequence: int, key: ObjectKey) -> bool:
        """False: only the record came, without a file."""
        if (number, sequence) not in self._results:
            self._drain(number)
        file = self._results.pop((number, sequence), None)
        if file is None:
            return False
        self.drop(key)
        self._files[key] = file
        return True

    def forget_results(self, number: int) -> None:
        """The worker process is gone: close the files that it sent and never recorded."""
        for name in [name for name in self._results if name[0] == number]:
            os.close(self._results.pop(name).fd)

    def drop(self, key: ObjectKey) -> None:
        file = self._files.pop(key, None)
        if file is not None:
            os.close(file.fd)


def _is_sealed(fd: int, size: int) -> bool:
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS) == RESULT_SEALS and os.fstat(fd).st_size == size
    except OSError:  # not a memory file
        return False
