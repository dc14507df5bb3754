"""Profiles: bounded trees, their bytes, and what people read."""

from __future__ import annotations

import json
import zlib

import pytest

from scaler_protocol.profile import DEPTH_LIMIT, BadProfile, ProfileTree, regrouped
from scaler_protocol.profile_report import nested, page_of, rows_of, speedscope_of, text_of

PATHS = {
    ("w1", "aa", "price", "price (p.py:1)", "exp (m.py:7)"): 600,
    ("w1", "aa", "price", "price (p.py:1)"): 100,
    ("w2", "bb", "price", "price (p.py:1)", "exp (m.py:7)"): 200,
    ("w2", "bb", "load", "load (l.py:3)"): 100,
}


def tree_of(paths: dict[tuple[str, ...], int], limit: int = 1000) -> ProfileTree:
    tree = ProfileTree(limit)
    for path, microseconds in paths.items():
        tree.add(path, microseconds)
    return tree


def test_a_profile_survives_its_bytes_and_merges() -> None:
    tree = ProfileTree.from_bytes(tree_of(PATHS).to_bytes())
    assert dict(tree.rows()) == PATHS and tree.total_us == 1000
    both = ProfileTree()
    both.merge(tree)
    both.merge(tree)
    assert dict(both.minus(tree).rows()) == PATHS
    assert len(both) == len(tree)


def test_a_full_tree_counts_the_time_for_the_part_of_the_path_that_it_has() -> None:
    tree = ProfileTree(3)
    tree.add(("a", "b"), 1)
    for number in range(10_000):
        tree.add(("a", "b", f"c{number}"), 1)
        tree.add((f"x{number}",), 1)
    assert len(tree) == 3
    assert dict(tree.rows())[("a", "b")] == 10_000


def test_the_greatest_times_find_room_when_trees_are_merged() -> None:
    wide = tree_of({(f"f{number}",): number for number in range(1, 1001)})
    small = ProfileTree(10)
    small.merge(wide)
    assert {path[0] for path, _ in small.rows()} == {f"f{number}" for number in range(991, 1001)}


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"{",
        b'{"frames": ["a"], "nodes": [[0, 0, 1]]}',
        b'{"frames": ["a"], "nodes": [[-2, 0, 1]]}',
        b'{"frames": ["a"], "nodes": [[-1, 1, 1]]}',
        b'{"frames": ["a"], "nodes": [[-1, -1, 1]]}',
        b'{"frames": ["a"], "nodes": [[-1, 0, -1]]}',
        b'{"frames": ["a"], "nodes": [[-1, 0, 1e300]]}',
        b'{"frames": ["a"], "nodes": [[-1, 0, NaN]]}',
        b'{"frames": ["a"], "nodes": [[-1, 0, Infinity]]}',
        b'{"frames": ["a"], "nodes": [[-1, Infinity, 1]]}',
        b'{"frames": [1], "nodes": []}',
        b'{"frames": ["a"], "nodes": [[-1, 0]]}',
        b'{"frames": ["a"], "nodes": [["", 0, 1]]}',
        b'{"frames": {}, "nodes": {}}',
        b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_profile_are_refused(said: bytes) -> None:
    with pytest.raises(BadProfile):
        ProfileTree.from_json(said)
    with pytest.raises(BadProfile):
        ProfileTree.from_bytes(zlib.compress(said))
    with pytest.raises(BadProfile):
        ProfileTree.from_bytes(said)


def test_a_bomb_is_not_unpacked_and_a_deep_tree_is_refused() -> None:
    with pytest.raises(BadProfile):
        ProfileTree.from_bytes(zlib.compress(b" " * 100_000_000))
    deep = {"frames": ["a"], "nodes": [[number - 1, 0, 1] for number in range(DEPTH_LIMIT + 10)]}
    with pytest.raises(BadProfile):
        ProfileTree.from_json(json.dumps(deep).encode())


def test_hostile_names_are_cut_and_harmless() -> None:
    name = "\x1b[2J</script><b>" + "n" * 10_000
    tree = ProfileTree.from_bytes(tree_of({("w", "aa", name): 5}).to_bytes())
    ((path, _),) = tree.rows()
    assert len(path[2]) == 200 and path[2].isprintable()
    page = page_of(tree, title="<&>")
    assert "</script><b>" not in page and "<h1>&lt;&amp;></h1>" in page


def test_the_first_level_is_a_function_a_worker_or_a_client() -> None:
    tree = tree_of(PATHS)
    calls = {by: [(each["name"], each["us"]) for each in nested(tree, by)["children"]] for by in ("function", "worker")}
    assert calls == {"function": [("price", 900), ("load", 100)], "worker": [("w1", 700), ("w2", 300)]}
    assert [each["name"] for each in nested(tree, "client")["children"]] == ["client aa", "client bb"]
    assert dict(regrouped(tree, "function").rows())[("price", "price (p.py:1)", "exp (m.py:7)")] == 800


def test_a_text_shows_totals_and_time_of_its_own() -> None:
    lines = text_of(tree_of(PATHS)).splitlines()
    assert lines[1].split() == ["1ms", "100.0%", "all"]
    assert lines[2].split() == ["900us", "90.0%", "price"]
    assert lines[3].split() == ["900us", "90.0%", "100us", "price", "(p.py:1)"]
    assert lines[4].split() == ["800us", "80.0%", "800us", "exp", "(m.py:7)"]
    assert [row.depth for row in rows_of(tree_of(PATHS))] == [0, 1, 2, 3, 1, 2]
    assert text_of(ProfileTree()) == "No task ran while the profile was taken."


def test_speedscope_gets_a_profile_of_each_worker() -> None:
    made = speedscope_of(tree_of(PATHS))
    assert [(each["name"], each["endValue"]) for each in made["profiles"]] == [("w1", 700), ("w2", 300)]
    for each in made["profiles"]:
        assert len(each["samples"]) == len(each["weights"])
        assert all(index < len(made["shared"]["frames"]) for sample in each["samples"] for index in sample)
    assert speedscope_of(ProfileTree())["profiles"]
