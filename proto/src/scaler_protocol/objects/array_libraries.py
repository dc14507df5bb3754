"""The pickling of torch's tensors and of Polars' frames: their memory lies outside the pickle, and is not copied.

A tensor travels as an array of bytes, a frame as a table of Arrow. Others, such as sparse tensors, are pickled by their
library.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

_PICKLE_PROTOCOL = 5

# ---- torch -----------------------------------------------------------------------------------------------------------


def reduce_tensor(tensor: Any) -> Any:
    """A dense tensor in the memory of the host. Others know more than their values."""
    torch = sys.modules["torch"]
    is_plain = (
        "numpy" in sys.modules
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.grad_fn is not None)
        and not (tensor.__dict__ or tensor._backward_hooks)
    )
    if not is_plain:
        return tensor.__reduce_ex__(_PICKLE_PROTOCOL)
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return tensor_of, (data, str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape), tensor.requires_grad)


def tensor_of(data: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """A tensor that uses the memory of an array of bytes. Memory that is shared with other tasks is copied: all
    tensors can be written to."""
    import torch

    if not data.flags.writeable:
        data = data.copy()
    tensor = torch.from_numpy(data).view(getattr(torch, dtype)).reshape(shape)
    return tensor.requires_grad_() if requires_grad else tensor


# ---- Polars ----------------------------------------------------------------------------------------------------------


def reduce_frame(frame: Any) -> Any:
    """A frame, by the way of Arrow if that is installed and knows all of its types."""
    table = _table_of(frame)
    return frame.__reduce_ex__(_PICKLE_PROTOCOL) if table is None else (frame_of, (table,))


def reduce_series(series: Any) -> Any:
    """A series, as a frame of one column."""
    table = _table_of(series.to_frame())
    return series.__reduce_ex__(_PICKLE_PROTOCOL) if table is None else (series_of, (table, series.name))


def frame_of(table: Any) -> Any:
    """A frame that uses the memory of a table of Arrow."""
    import polars

    return polars.from_arrow(table)


def series_of(table: Any, name: str) -> Any:
    """A series that uses the memory of the only column of a table of Arrow."""
    return frame_of(table).to_series().alias(name)


def _table_of(frame: Any) -> Any:
    polars = sys.modules["polars"]
    if find_spec("pyarrow") is None or not all(_travels(polars, kind) for kind in frame.dtypes):
        return None
    return frame.to_arrow(compat_level=polars.CompatLevel.newest())


def _travels(polars: Any, kind: Any) -> bool:
    """Return whether Arrow has this type, and those inside it. Categories and objects of Python belong to a process."""
    if isinstance(kind, polars.List | polars.Array):
        return _travels(polars, kind.inner)
    if isinstance(kind, polars.Struct):
        return all(_travels(polars, field.dtype) for field in kind.fields)
    return kind.is_numeric() or kind.is_temporal() or kind in (polars.String, polars.Boolean, polars.Binary)
