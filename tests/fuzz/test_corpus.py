"""The inputs that the repository keeps find nothing, in the normal build: each that once did was a bug."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import target
from fuzz.replay import replay
from fuzz.scratch import clean
from fuzz.seeds import corpus_in


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


def test_a_file_to_reproduce_is_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "input").write_bytes(b"found")
    (tmp_path / "crash").write_bytes(b"reproduced")
    arguments = str(tmp_path / "corpus"), str(tmp_path / "crash"), "-max_total_time=10"
    assert corpus_in(arguments) == [b"found"]
