"""Answers about a worker's output, as its agent gives them, and what is new in each."""

from __future__ import annotations

import random

import pytest

from scaler.command.followed_output import EXECUTIONS_LIMIT, FollowedOutput
from scaler_protocol.messages import OutputPiece
from scaler_protocol.output_text import text_of
from scaler_worker.core.kept_output import PIECES_LIMIT, KeptOutput
from scaler_worker.core.process_output import STDERR, STDOUT, Writer


def writer(task: int) -> Writer:
    return Writer(b"s" * 16, task, 1, "price", "w", 0, False)


def new_text(followed: FollowedOutput, kept: KeptOutput) -> str:
    return text_of(followed.new_in(kept.of_worker("w")), names_tasks=False)


def test_each_answer_adds_what_was_printed_since_the_last() -> None:
    kept, followed = KeptOutput(), FollowedOutput()
    kept.add(writer(1), STDOUT, b"one\n")
    assert new_text(followed, kept) == "one\n"
    assert new_text(followed, kept) == ""
    kept.add(writer(1), STDOUT, b"two\n")
    kept.add(writer(2), STDERR, b"other\n")
    assert new_text(followed, kept) == "two\nother\n"
    kept.add(writer(1), STDERR, b"three\n")
    assert new_text(followed, kept) == "three\n"


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_shown_twice_and_nothing_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    kept, followed = KeptOutput(), FollowedOutput()
    printed: dict[int, bytes] = {1: b"", 2: b""}
    shown = {1: b"", 2: b""}
    for _ in range(300):
        for _ in range(chance.randrange(5)):
            task, size = chance.choice((1, 2)), chance.choice((1, 20, 3000))
            line = b"%d" % chance.randrange(10) * size + b"\n"
            printed[task] += line
            kept.add(writer(task), chance.choice((STDOUT, STDERR)), line)
        for piece in followed.new_in(kept.of_worker("w")):
            assert not piece.left_out
            shown[piece.task] += piece.data
    assert shown == printed


def test_what_the_host_no_longer_has_is_counted() -> None:
    kept, followed = KeptOutput(), FollowedOutput()
    kept.add(writer(1), STDOUT, b"begin\n")
    assert new_text(followed, kept) == "begin\n"
    for _ in range(200):
        kept.add(writer(1), STDOUT, b"x" * 1023 + b"\n")
    new = followed.new_in(kept.of_worker("w"))
    assert sum(len(piece.data) + piece.left_out for piece in new) == 200 * 1024
    assert sum(piece.left_out for piece in new) > 100_000


def test_an_answer_of_too_many_pieces_says_what_it_lacks() -> None:
    kept, followed = KeptOutput(), FollowedOutput()
    for number in range(PIECES_LIMIT):
        kept.add(writer(1), STDOUT + number % 2, b"%04d\n" % number)
    followed.new_in(kept.of_worker("w"))
    for number in range(10):
        kept.add(writer(1), STDOUT + number % 2, b"late %d\n" % number)
    assert new_text(followed, kept) == "".join(f"late {number}\n" for number in range(10))


def test_a_task_that_its_host_has_forgotten_is_shown_again_from_there() -> None:
    followed, kept = FollowedOutput(), KeptOutput()
    kept.add(writer(1), STDOUT, b"a long line\n")
    new_text(followed, kept)
    kept = KeptOutput()  # the agent began again
    kept.add(writer(1), STDOUT, b"short\n")
    assert new_text(followed, kept) == "short\n"


def test_years_of_tasks_fill_no_memory() -> None:
    followed = FollowedOutput()
    for task in range(EXECUTIONS_LIMIT + 100):
        followed.new_in([OutputPiece(b"s" * 8, task, 1, 0, STDOUT, 0, "price", "w", b"x\n")])
    assert len(followed.seen_bytes) == EXECUTIONS_LIMIT
