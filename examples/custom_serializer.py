"""A serializer of your own: DataFrames travel as parquet, all else as cloudpickle does it.

Needs pandas and pyarrow (pip install pandas pyarrow).
"""

from __future__ import annotations

import io
from typing import Any

import cloudpickle
import pandas

from scaler import Client, SchedulerClusterCombo, Serializer

FRAME = b"frame"
OTHER = b"other"


class ParquetSerializer(Serializer):
    """The first five bytes say what follows."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        if isinstance(obj, pandas.DataFrame):
            buffer = io.BytesIO()
            obj.to_parquet(buffer)
            return FRAME + buffer.getvalue()
        return OTHER + cloudpickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        kind, data = payload[:5], payload[5:]
        return pandas.read_parquet(io.BytesIO(data)) if kind == FRAME else cloudpickle.loads(data)


def average_price(trades: pandas.DataFrame) -> pandas.DataFrame:
    """Price per symbol, weighted by volume."""
    value = (trades["price"] * trades["volume"]).groupby(trades["symbol"]).sum()
    volume = trades.groupby("symbol")["volume"].sum()
    return (value / volume).rename("average price").reset_index()


def main() -> None:
    trades = pandas.DataFrame(
        {"symbol": ["A", "B", "A", "B"], "price": [10.0, 20.0, 12.0, 22.0], "volume": [100, 50, 300, 150]}
    )
    with (
        SchedulerClusterCombo(n_workers=1) as cluster,
        Client(cluster.get_address(), serializer=ParquetSerializer()) as client,
    ):
        print(client.submit(average_price, trades).result().to_string(index=False))


if __name__ == "__main__":
    main()
