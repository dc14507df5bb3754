from __future__ import annotations

from scaler_protocol.monitor.history import LEVELS, History, outages


def test_samples_come_back_in_order() -> None:
    history = History()
    for second in range(100):
        history.add(1000.0 + second, second)
    times, values = history.since(1050.0)
    assert list(times) == [1050.0 + second for second in range(50)]
    assert list(values) == list(range(50, 100))
    assert history.last == 99


def test_several_samples_of_a_second_are_their_mean() -> None:
    history = History()
    for value in (1, 2, 6):
        history.add(10.0 + value / 10, value)
    assert list(history.since()[1]) == [3.0]


def test_what_is_older_than_an_hour_is_kept_more_coarsely_and_memory_is_bounded() -> None:
    history = History()
    for second in range(4 * 24 * 3600):
        history.add(float(second), 5.0)
    times, values = history.since()
    assert set(values) == {5.0}
    assert list(times) == sorted(set(times))
    assert times[-1] - times[0] > 2.9 * 24 * 3600
    assert 3600 <= sum(time > times[-1] - 3600 for time in times) <= 3601
    assert len(times) <= sum(2 * limit for _, limit in LEVELS)


def test_time_that_goes_back_is_left_out() -> None:
    history = History()
    history.add(100.0, 1)
    history.add(50.0, 2)
    assert list(history.since()[0]) == [100.0]


def test_nothing() -> None:
    assert [list(column) for column in History().since()] == [[], []]
    assert History().last == 0


def test_an_outage_is_much_longer_than_the_pauses_around_it() -> None:
    assert outages([]) == outages([1.0]) == []
    assert outages([1.0, 2.0, 3.0, 90.0, 91.0]) == [2]
    assert outages([0.0, 60.0, 120.0, 130.0, 140.0, 141.0, 142.0]) == []  # older samples are further apart
    assert outages([0.0, 60.0, 120.0, 1000.0, 1001.0]) == [2]
    assert outages([1.0, 2.0, 6.9]) == [] and outages([1.0, 2.0, 7.1]) == [1]
    assert outages([1.0, 90.0]) == [0]
