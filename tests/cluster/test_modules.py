"""Modules whose source clients send to the workers."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import scaler
from scaler import Client, SchedulerClusterCombo
from scaler.client import shipping
from scaler_worker.module_cache import cache_directory
from tests.support.waiting import wait_until

HELPERS = """
from local_package import part
class Item:
    version = {version}
    value = 3
def version():
    return {version}
def of(item):
    return item.value * part.FACTOR, version()
def make():
    return Item()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directory of modules that only this process can import: the workers started before it was there."""
    folder = tmp_path / "local"
    (folder / "local_package" / "data").mkdir(parents=True)
    (folder / "local_package" / "__init__.py").write_text("")
    (folder / "local_package" / "part.py").write_text(
        "import os\nFACTOR = 2\ndef text():\n"
        "    return open(os.path.join(os.path.dirname(__file__), 'data', 'text')).read()\n"
    )
    (folder / "local_package" / "data" / "text").write_text("data")
    (folder / "local_helpers.py").write_text(HELPERS.format(version=1))
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.startswith("local_")]:
        del sys.modules[name]


@pytest.fixture
def load(folder: Path) -> Callable[[str], ModuleType]:
    return importlib.import_module


@pytest.fixture
def address(combo: SchedulerClusterCombo) -> str:
    return combo.get_address()


def told_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings about modules. On a busy machine, a client may also warn that its scheduler answers late."""
    return [each for each in caplog.messages if not each.startswith("Waiting for a scheduler")]


def test_functions_arguments_and_results(address: str, load: Callable[[str], ModuleType]) -> None:
    helpers = load("local_helpers")
    with Client(address, modules=[helpers, "local_package"]) as client:
        assert client.submit(helpers.of, helpers.Item()).result() == (6, 1)
        assert client.map(helpers.of, [helpers.Item()] * 20) == [(6, 1)] * 20
        assert isinstance(client.submit(helpers.make).result(), helpers.Item)
        assert client.submit(helpers.of, client.submit(helpers.make)).result() == (6, 1)
        reference = client.send_object(helpers.Item())
        assert client.submit(helpers.of, reference).result() == (6, 1)


def test_a_submodule_stands_for_its_package_with_its_data(address: str, load: Callable[[str], ModuleType]) -> None:
    part = load("local_package.part")
    with Client(address, modules=[part]) as client:
        assert client.submit(part.text).result() == "data"


def test_two_clients_with_different_contents(
    single_combo: SchedulerClusterCombo, folder: Path, load: Callable[[str], ModuleType]
) -> None:
    """One worker process runs the tasks of both in turn, and each sees its own."""
    helpers = load("local_helpers")
    address = single_combo.get_address()
    with Client(address, modules=[helpers, "local_package"]) as old:
        (folder / "local_helpers.py").write_text(HELPERS.format(version=2))
        with Client(address, modules=[helpers, "local_package"]) as new:
            for _ in range(3):
                assert old.submit(helpers.of, helpers.Item()).result() == (6, 1)
                assert new.submit(helpers.of, helpers.Item()).result() == (6, 2)
                assert new.submit(lambda item: item.version, helpers.Item()).result() == 2
                assert old.submit(lambda item: item.version, helpers.Item()).result() == 1


def test_a_change_is_told_when_the_module_is_loaded_again(
    address: str, folder: Path, load: Callable[[str], ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    helpers = load("local_helpers")
    caplog.set_level(logging.WARNING, "scaler")
    with Client(address, modules=[helpers, "local_package"]) as client:
        assert client.submit(helpers.version).result() == 1
        (folder / "local_helpers.py").touch()
        assert client.submit(lambda: helpers.version()).result() == 1
        assert not told_by(caplog), "the content is the same"
        (folder / "local_helpers.py").write_text(HELPERS.format(version=20))
        assert client.submit(helpers.version).result() == helpers.version() == 1
        assert not told_by(caplog), "this program runs the earlier content, too"
        importlib.reload(helpers)
        assert client.submit(helpers.version).result() == 1
        assert client.map(lambda number: number + helpers.version(), [1, 2]) == [2, 3]
        (told,) = told_by(caplog)
        assert told.startswith("The files of local_helpers have changed") and "Make another client" in told
    with Client(address, modules=[helpers, "local_package"]) as client:
        assert client.submit(helpers.version).result() == helpers.version() == 20
    assert len(told_by(caplog)) == 1


def test_code_that_is_replaced_in_its_functions_is_told(
    address: str, folder: Path, load: Callable[[str], ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    autoreload = pytest.importorskip("IPython.extensions.autoreload")
    helpers = load("local_helpers")
    version = helpers.version
    with Client(address, modules=[helpers, "local_package"]) as client:
        assert client.submit(version).result() == 1
        (folder / "local_helpers.py").write_text(HELPERS.format(version=20))
        autoreload.superreload(helpers)
        assert version() == 20
        assert (client.submit(version).result(), client.submit(version).result()) == (1, 1)
    (told,) = told_by(caplog)
    assert told.startswith("The files of local_helpers have changed")


def test_a_file_that_is_added_to_a_package_is_told(
    address: str, folder: Path, load: Callable[[str], ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    package = load("local_package")
    with Client(address, modules=[package]) as client:
        assert client.submit(load("local_package.part").text).result() == "data"
        (folder / "local_package" / "added.py").write_text("def number():\n    return 5\n")
        (folder / "other_file.py").write_text("")
        client.submit(load("local_package.added").number).exception()
        (told,) = told_by(caplog)
        assert told.startswith("The files of local_package have changed")
    with Client(address, modules=[package]) as client:
        assert client.submit(load("local_package.added").number).result() == 5
    assert len(told_by(caplog)) == 1


def test_a_removed_module_is_told_once(
    address: str, folder: Path, load: Callable[[str], ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    helpers = load("local_helpers")
    caplog.set_level(logging.WARNING, "scaler")
    with Client(address, modules=[helpers, "local_package"]) as client:
        (folder / "local_helpers.py").unlink()
        assert client.submit(helpers.version).result() == 1
        assert client.submit(helpers.of, helpers.Item()).result() == (6, 1)
    assert [each[:29] for each in told_by(caplog)] == ["The files of local_helpers ha"]


def test_a_client_without_them_has_none(single_combo: SchedulerClusterCombo, load: Callable[[str], ModuleType]) -> None:
    helpers = load("local_helpers")
    address = single_combo.get_address()
    with Client(address, modules=[helpers, "local_package"]) as client, Client(address) as other:
        assert client.submit(helpers.version).result() == 1
        with pytest.raises(scaler.ScalerError, match="No module named 'local_helpers'"):
            other.submit(helpers.version).result()
        assert client.submit(helpers.version).result() == 1


def test_clients_inside_tasks_inherit_them(address: str, load: Callable[[str], ModuleType]) -> None:
    helpers = load("local_helpers")

    def outer() -> int:
        with Client() as client:
            return client.submit(helpers.version).result() + sum(client.map(helpers.Item.version.__add__, [1, 2]))

    with Client(address, modules=[helpers, "local_package"]) as client:
        assert client.submit(outer).result() == 6


def test_a_serializer_of_a_shipped_module(address: str, folder: Path, load: Callable[[str], ModuleType]) -> None:
    (folder / "local_format.py").write_text(
        "import cloudpickle, pickle\nfrom scaler import Serializer\nclass Format(Serializer):\n"
        "    @staticmethod\n    def serialize(value): return b'!' + cloudpickle.dumps(value)\n"
        "    @staticmethod\n    def deserialize(data): return pickle.loads(data[1:])\n"
    )
    module, helpers = load("local_format"), load("local_helpers")
    with Client(address, serializer=module.Format, modules=[module, helpers, "local_package"]) as client:
        assert client.submit(helpers.of, helpers.Item()).result() == (6, 1)


def test_ship_is_for_all_clients(
    address: str, load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_registered", {})
    part = load("local_package.part")
    scaler.ship(part)
    with Client(address) as client:
        assert client.submit(part.text).result() == "data"


def test_a_large_package(address: str, folder: Path, load: Callable[[str], ModuleType]) -> None:
    for number in range(200):
        (folder / "local_package" / f"module_{number}.py").write_text(f"DATA = {os.urandom(1000)!r}\n")
    part = load("local_package.part")
    with Client(address, modules=[part]) as client:
        assert client.submit(part.text).result() == "data"


def test_nothing_is_left_on_the_host(folder: Path, load: Callable[[str], ModuleType], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        (tmp_path / "tmp").mkdir()
        patch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        patch.setenv("TMPDIR", str(tmp_path / "tmp"))
        root = Path(cache_directory())
        sys.path.remove(str(folder))
        combo = SchedulerClusterCombo(2)
        sys.path.insert(0, str(folder))
        part = load("local_package.part")
        with combo, Client(combo.get_address()) as idle:
            with Client(combo.get_address(), modules=[part]) as client:
                assert client.submit(part.text).result() == "data"
                assert len(list(root.glob("*.lock"))) == 1
            wait_until(lambda: idle.submit(len, "a").result() == 1 and not list(root.glob("*.lock")))
            with Client(combo.get_address(), modules=[part]) as client:
                assert client.submit(part.text).result() == "data"
        assert not root.exists()


def test_what_cannot_be_sent(address: str, folder: Path, load: Callable[[str], ModuleType]) -> None:
    with pytest.raises(ValueError, match="part of Python"):
        Client(address, modules=["os"])
    with pytest.raises(ValueError, match="workers have it"):
        Client(address, modules=[scaler])
    with pytest.raises(ModuleNotFoundError):
        Client(address, modules=["no_such_module_at_all"])
    with pytest.raises(TypeError, match="a list of modules"):
        Client(address, modules="local_helpers")
    with open(folder / "local_package" / "large", "wb") as file:
        file.truncate(shipping.LIMIT_BYTES + 1)
    with pytest.raises(ValueError, match="more than 64 MiB"):
        Client(address, modules=[load("local_package")])


def test_a_module_that_fails_to_import(address: str, folder: Path, load: Callable[[str], ModuleType]) -> None:
    module = load("local_helpers")
    (folder / "local_helpers.py").write_text("raise RuntimeError('not today')\n")
    with Client(address, modules=[module]) as client:
        with pytest.raises(scaler.ScalerError, match="not today") as caught:
            client.submit(module.version).result()
    (note,) = caught.value.__notes__
    assert note.startswith("This error was raised when local_helpers was imported on worker ")
