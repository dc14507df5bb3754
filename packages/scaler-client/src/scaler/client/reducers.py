"""The pickling of locks and proxies, which arrive in tasks as other objects, and of code, which keeps its file."""

from __future__ import annotations

import copyreg
import hashlib
import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn

from scaler.client.foreign_futures import is_foreign_future, refuse_future
from scaler.client.lock import Lock
from scaler.utility.private_apis import reduce_code
from scaler_protocol.messages import LOCK_NAME_LIMIT_BYTES
from scaler_protocol.objects.proxies import ProxyReducers
from scaler_protocol.objects.reducers import Reducer
from scaler_protocol.objects.sent_code import with_version

_THREAD_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_DASK_PREFIX = "dask.utils.SerializableLock "


class ArgumentReducers(ProxyReducers):
    """The dispatch table of a client's pickler. Dask's SerializableLock, which excludes within one process only,
    arrives in a task as a lock of the cluster. A lock of ``threading``, and a future that is not one of a client, is
    refused with a reason. Code keeps the name of its file, and runs in the same version of Python only."""

    def find(self, kind: type) -> Reducer | None:
        if kind is CodeType:
            return reduce_sent_code
        if is_dask_lock(kind):
            return reduce_dask_lock
        if kind in _THREAD_LOCKS and kind not in copyreg.dispatch_table:
            return _refuse_thread_lock
        if is_foreign_future(kind):
            return refuse_future
        return super().find(kind)


def reduce_sent_code(code: CodeType) -> tuple[Any, ...]:
    return with_version(code, reduce_code(code))


def is_dask_lock(kind: type) -> bool:
    utils = sys.modules.get("dask.utils")
    return utils is not None and issubclass(kind, utils.SerializableLock)


def reduce_dask_lock(lock: Any) -> tuple[Any, ...]:
    """Equal tokens are one lock, as they are within a process."""
    return Lock, (name_of_dask_lock(lock.token),)


def name_of_dask_lock(token: Any) -> str:
    name = _DASK_PREFIX + (token if isinstance(token, str) else repr(token))
    data = name.encode(errors="surrogatepass")
    if len(data) > LOCK_NAME_LIMIT_BYTES:
        return _DASK_PREFIX + hashlib.blake2b(data, digest_size=16).hexdigest()
    return data.decode(errors="replace")


# ---- serializers of users --------------------------------------------------------------------------------------------

_written_by = threading.local()  # whether this thread serializes for a task


def serialize_for_task(serialize: Callable[[Any], Any], value: Any) -> Any:
    """``serialize(value)``, in which Dask's locks become locks of the cluster, too, where ``serialize`` uses pickle."""
    utils = sys.modules.get("dask.utils")
    if utils is None:
        return serialize(value)
    if utils.SerializableLock not in copyreg.dispatch_table:
        copyreg.pickle(utils.SerializableLock, _reduce_anywhere)
    was_for_task, _written_by.task = getattr(_written_by, "task", False), True
    try:
        return serialize(value)
    finally:
        _written_by.task = was_for_task


def _reduce_anywhere(lock: Any) -> Any:
    return reduce_dask_lock(lock) if getattr(_written_by, "task", False) else lock.__reduce_ex__(2)


def _refuse_thread_lock(lock: Any) -> NoReturn:
    raise TypeError(
        f"cannot pickle a {type(lock).__name__!r} of threading, which excludes threads of one process only. Use "
        "client.lock(name), whose locks exclude one another in the whole cluster."
    )
