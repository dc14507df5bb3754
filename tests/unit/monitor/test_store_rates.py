"""How fast object stores work, and that screens show it."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.monitor.links import EntityLink, cell_link, row_link
from scaler_protocol.monitor.messages import HostStoreStatus, HostTraffic
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.store_rates import SPAN_SECONDS, StoreRate, StoreRates
from scaler_protocol.monitor.tables import OBJECTS
from tests.support.monitoring import snapshot


def store(host: str = "here", spilled: int = 0, sent: int = 0, received: int = 0) -> HostStoreStatus:
    return HostStoreStatus(host, 1, 1000, 2000, spilled, sent, received)


def test_nothing_is_known_at_first() -> None:
    assert StoreRates().add(1.0, [store(sent=500)]) == [StoreRate()]


def test_rates_are_of_the_last_seconds() -> None:
    rates = StoreRates()
    for second in range(60):
        last = rates.add(float(second), [store(sent=1000 * second, received=0 if second < 50 else 200 * (second - 50))])
    assert last == [StoreRate(0.0, 1000.0, 200.0)]
    for second in range(60, 62 + int(SPAN_SECONDS)):
        last = rates.add(float(second), [store(sent=59_000, received=1800)])
    assert last == [StoreRate()], "nothing has moved for a while"


def test_agents_that_tell_seldom_make_no_rate_jump() -> None:
    rates = StoreRates()
    seen = [rates.add(second, [store(sent=2000 * (second // 2))])[0].sent for second in range(20)]
    assert all(600 <= rate <= 1400 for rate in seen[6:]), seen


def test_a_store_that_is_started_again_counts_from_zero() -> None:
    rates = StoreRates()
    rates.add(1.0, [store(spilled=10**9, sent=10**9)])
    assert rates.add(2.0, [store(sent=10)]) == [StoreRate()]


def test_other_hosts_are_other_stores() -> None:
    rates = StoreRates()
    rates.add(1.0, [store("a", sent=0), store("b", sent=10**9)])
    assert rates.add(2.0, [store("b", sent=10**9)]) == [StoreRate()]
    assert rates.add(3.0, [store("b", sent=10**9 + 50)]) == [StoreRate(0.0, 50.0, 0.0)]


def test_tables_and_histories_have_them() -> None:
    model = Model(0.0)
    for second in (100, 102):
        stores = (store(spilled=10 * second, sent=1024 * second, received=3 * second),)
        model.apply(replace(snapshot(), stores=stores, time=float(second)), float(second))
    (row,), _ = model.rows("objects")
    named = {column.key: value for column, value in zip(OBJECTS.columns, row, strict=True)}
    assert (named["spilled_rate"], named["sent_rate"], named["received_rate"]) == (10.0, 1024.0, 3.0)
    assert model.history("store_sent")[1][-1] == 1024.0
    assert model.history("store_received")[1][-1] == 3.0
    assert model.history("store_spilled")[1][-1] == 1020.0


def test_traffic_between_hosts_has_rates() -> None:
    model = Model(0.0)
    for second in range(12):
        traffic = (HostTraffic("a", "b", 1000 * second), *([HostTraffic("b", "a", 500)] if second > 5 else []))
        model.apply(replace(snapshot(), time=100.0 + second, traffic=traffic), float(second))
    assert model.rows("traffic")[0] == [("a", "b", 11_000, 1000.0), ("b", "a", 500, 0.0)]
    row = model.rows("traffic")[0][0]
    assert cell_link("traffic", "source", row) == EntityLink("host", ("a",))
    assert row_link("traffic", row) == cell_link("traffic", "target", row) == EntityLink("host", ("b",))
    model.apply(replace(snapshot(), time=113.0, traffic=(HostTraffic("a", "b", 0),)), 13.0)
    assert model.rows("traffic")[0] == [("a", "b", 0, 0.0)]
