"""The inputs that the repository keeps find nothing, in the normal build: each that once did was a bug."""

from __future__ import annotations

import pytest

from fuzz import target
from fuzz.replay import replay
from fuzz.scratch import clean


@pytest.mark.parametrize("name", target.names())
def test_no_input_of_the_corpus_finds_anything(name: str) -> None:
    chosen = target.FuzzTarget(name)
    assert chosen.inputs(), "a target without a corpus is hardly tried where fuzzing is short"
    try:
        replay(chosen, chosen.inputs())
    finally:
        clean()


@pytest.mark.parametrize("name", target.names())
def test_a_target_says_what_it_fuzzes(name: str) -> None:
    assert target.FuzzTarget(name).summary.endswith(".")


def test_every_corpus_has_a_target() -> None:
    assert {path.name for path in target.CORPUS.iterdir()} == set(target.names())
