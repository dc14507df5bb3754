"""Modules that the client has and the workers have not."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that only this process can import: the workers started before it was there."""
    (tmp_path / "only_here.py").write_text("class Item: pass\ndef double(value): return 2 * value\n")
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("only_here")


def test_a_function_of_a_missing_module(client: Client, local: ModuleType) -> None:
    futures = [client.submit(local.double, number) for number in range(3)]
    for future in futures:
        with pytest.raises(DeserializeObjectError, match="No module named 'only_here'") as caught:
            future.result()
        (note,) = caught.value.__notes__
        assert note.startswith("Cannot import only_here on worker ")
        assert note.endswith(
            "Pass modules=[only_here] to Client, name its package in Client(environment=...), or install it there."
        )


def test_an_argument_of_a_missing_module(client: Client, local: ModuleType) -> None:
    with pytest.raises(DeserializeObjectError) as caught:
        client.submit(type, local.Item()).result()
    assert any(note.startswith("Cannot import only_here on worker ") for note in caught.value.__notes__)


def test_an_import_inside_a_function(client: Client) -> None:
    def task() -> None:
        import no_such_module_at_all.part  # type: ignore[import-not-found]

        no_such_module_at_all.part()

    with pytest.raises(ModuleNotFoundError) as caught:
        client.submit(task).result()
    assert caught.value.__notes__[0].startswith("Cannot import no_such_module_at_all on worker ")


def test_a_module_that_another_version_of_its_package_has(client: Client) -> None:
    def task() -> None:
        import json.no_such_part  # type: ignore[import-not-found]

        json.no_such_part()

    with pytest.raises(ModuleNotFoundError) as caught:
        client.submit(task).result()
    (note,) = caught.value.__notes__
    assert "json is there" in note and "Install the same version of json on both." in note
