"""A pandas DataFrame is sent once; each task groups a part of its columns."""

from __future__ import annotations

import numpy
import pandas

from scaler import Client, SchedulerClusterCombo


def sales(rows: int) -> pandas.DataFrame:
    draw = numpy.random.default_rng(7)
    return pandas.DataFrame(
        {
            "shop": draw.integers(0, 50, rows),
            "month": draw.integers(1, 13, rows),
            "amount": draw.gamma(2.0, 15.0, rows),
        }
    )


def mean_by(table: pandas.DataFrame, column: str) -> pandas.Series:
    return table.groupby(column)["amount"].mean()


def main() -> None:
    table = sales(1_000_000)
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        reference = client.send_object(table, name="sales")
        by_shop, by_month = client.starmap(mean_by, [(reference, "shop"), (reference, "month")])
        print(f"{len(table):,} sales in {len(by_shop)} shops and {len(by_month)} months")
        print(f"mean amount {table.amount.mean():.1f}, best shop {by_shop.idxmax()} with {by_shop.max():.1f}")


if __name__ == "__main__":
    main()
