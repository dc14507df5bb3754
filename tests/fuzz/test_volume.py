"""The parts of the fuzzer that need no sanitizer build: mutants, and what is known of a process that has died."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import drive, seeds, tally
from fuzz.mode import MUTANTS, Mode
from fuzz.mutants import Mutants
from fuzz.target import FuzzTarget


def test_mutants_differ_and_are_not_too_long() -> None:
    mutants = Mutants(40)
    found = [each for number in range(50) for each in mutants.of(bytes([number]) * 30, MUTANTS)]
    assert len(found) == 50 * MUTANTS and len(set(found)) > len(found) * 0.9
    assert max(map(len, found)) == 40


def test_mutants_of_sequences_are_as_long_as_they_may_be() -> None:
    mutants = Mutants(1000, are_filled=True)
    assert {len(each) for number in range(5) for each in mutants.of(bytes([number]) * 30, MUTANTS)} == {1000}


def test_half_of_the_mutants_are_of_inputs_that_are_kept() -> None:
    found = list(Mutants(100, kept=[b"x" * 50]).of(b"", MUTANTS + 1))
    assert sum(each.count(b"x") > 10 for each in found) > len(found) // 4


@pytest.mark.parametrize("data", [b"", b"x"])
def test_small_inputs_have_mutants_too(data: bytes) -> None:
    assert any(each != data for each in Mutants(100).of(data, 100))


def test_the_input_that_ended_the_process_is_saved(tmp_path: Path) -> None:
    counts = tally.Tally()
    counts.keep_in(tmp_path / "tally")
    counts.begin_input(b"harmless")
    counts.count_messages(3)
    counts.end_input()
    counts.begin_input(b"fatal")
    assert tally.read(tmp_path / "tally") == (1, 3)
    saved = drive.save_crash(tmp_path)
    assert saved is not None and saved.read_bytes() == b"fatal"
    counts.end_input()
    assert drive.save_crash(tmp_path) is None


def test_a_target_that_cannot_be_loaded_has_no_input(tmp_path: Path) -> None:
    assert drive.save_crash(tmp_path) is None


def test_as_many_inputs_are_tried_as_were_asked_for() -> None:
    bound = drive.Bound(inputs=100)
    assert bound.arguments(Mode.GUIDED) == ["-runs=100"]
    assert bound.arguments(Mode.VOLUME) == ["-runs=7"], "each with its mutants"
    assert drive.Bound(seconds=5).arguments(Mode.VOLUME) == ["-max_total_time=5", "-prefer_small=0"]


def test_inputs_that_are_tried_at_once_have_the_time_of_all() -> None:
    target = FuzzTarget("codec")
    assert f"-timeout={drive.HANG_SECONDS}" in drive.limits(target)
    assert f"-timeout={drive.HANG_SECONDS * (1 + MUTANTS)}" in drive.limits(target, Mode.VOLUME)


def test_the_corpus_is_read_within_half_of_the_time() -> None:
    """libFuzzer would read all of it before it tried anything new."""
    now, tried = 0.0, []

    def run(data: bytes) -> None:
        nonlocal now
        tried.append(data)
        now += 1.0

    seconds = seeds.half_of_the_time(("-max_total_time=5", "corpus"))
    assert seconds == 2.5
    limited = seeds.read_for(seconds, 6, run, lambda: now)
    for data in b"", *[b"seed"] * 6, b"new", b"newer":
        limited(data)
    assert tried == [b"", b"seed", b"seed", b"new", b"newer"]


def test_the_whole_corpus_is_read_where_inputs_are_counted() -> None:
    assert seeds.half_of_the_time(("-runs=100", "corpus")) is None
