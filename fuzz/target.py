"""Fuzz targets: the modules in ``fuzz/targets``."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path

FOLDER = Path(__file__).parent
TARGETS = FOLDER / "targets"
CORPUS = FOLDER / "corpus"
DICTIONARIES = FOLDER / "dictionaries"

LONGEST_INPUT_BYTES = 4096
SLOWEST_SECONDS = 2.0
"""Processor time for one input in the sanitizer build, which is about ten times slower than a release."""

SLOWEST_SEQUENCE_SECONDS = 10.0
"""The same for an input that is a sequence of operations: hundreds of turns of a simulated cluster take 0.4 s in a
release."""


class FuzzTarget:
    """One target, by its name. Its module has

    * a docstring: what is fuzzed, and what counts as a failure;
    * ``one_input(data)``, which raises when something is wrong;
    * ``seeds()``, optional: inputs to begin with;
    * ``LONGEST_INPUT_BYTES``, optional;
    * ``IS_SEQUENCE``, optional: inputs are operations one after another, and what comes before and after them costs
      much, so that long inputs are better where many are tried.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = TARGETS / f"{name}.py"
        self.corpus = CORPUS / name
        self.dictionary = DICTIONARIES / f"{name}.dict"

    @property
    def summary(self) -> str:
        """The first sentence of its docstring, without importing it."""
        text = ast.get_docstring(ast.parse(self.path.read_text(encoding="utf-8"))) or ""
        return text.split("\n\n")[0].replace("\n", " ")

    def load(self) -> LoadedTarget:
        return LoadedTarget(importlib.import_module(f"fuzz.targets.{self.name}"))

    def inputs(self) -> list[Path]:
        """The corpus in the repository."""
        return sorted(self.corpus.iterdir()) if self.corpus.is_dir() else []


class LoadedTarget:
    def __init__(self, module: object) -> None:
        self.one_input: Callable[[bytes], None] = module.one_input  # type: ignore[attr-defined]
        self.seeds: Callable[[], Iterable[bytes]] = getattr(module, "seeds", tuple)
        self.longest_input_bytes: int = getattr(module, "LONGEST_INPUT_BYTES", LONGEST_INPUT_BYTES)
        self.is_sequence: bool = getattr(module, "IS_SEQUENCE", False)
        self.slowest_seconds = SLOWEST_SEQUENCE_SECONDS if self.is_sequence else SLOWEST_SECONDS


def names() -> list[str]:
    return sorted(path.stem for path in TARGETS.glob("*.py") if path.stem != "__init__")
