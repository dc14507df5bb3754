"""The names of user and program that a client tells its scheduler, for monitors."""

from __future__ import annotations

import os
import pwd
import sys
from types import ModuleType, SimpleNamespace

import pytest

from scaler.client import program_names


@pytest.mark.parametrize(
    ("module", "arguments", "name"),
    [
        (None, ["/home/ann/jobs/train.py", "--fast"], "train.py"),
        ("steps.__main__", ["/lib/steps/__main__.py"], "steps"),
        (None, ["-c"], "python -c"),
        (None, [""], "interactive"),
        (None, [], "interactive"),
        (None, ["/x/" + "n" * 500], "n" * 100),
        (None, ["/x/\udcff.py"], "?.py"),
    ],
)
def test_programs(module: str | None, arguments: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__spec__ = None if module is None else SimpleNamespace(name=module)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.delattr(sys, "ps1", raising=False)
    monkeypatch.setattr(sys, "argv", arguments)
    assert program_names.program_name() == name
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert program_names.program_name() == "notebook"


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    name_of = program_names.user_name.__wrapped__
    assert name_of() == pwd.getpwuid(os.geteuid()).pw_name

    def missing(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", missing)
    assert name_of() == f"uid {os.geteuid()}"
