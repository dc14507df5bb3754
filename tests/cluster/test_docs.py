"""What the documentation says is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import MODULES, REPOSITORY, run_python
from tests.support.documentation import blocks

DOCS = REPOSITORY / "docs"
PAGES = [*sorted(REPOSITORY.glob("*.md")), REPOSITORY / "tests" / "README.md", *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FLAG = re.compile(r"^  (--[a-z][a-z-]+)", re.MULTILINE)


def run_blocks(page: Path, count: int | None, folder: Path) -> str:
    """What the first ``count`` Python blocks print as one program; None: all of them."""
    done = run_python("\n".join(blocks(page, "python")[:count]), cwd=str(folder), timeout_seconds=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_program_of_the_client_page_runs(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def double(value): return 2 * value\n")
    run_blocks(DOCS / "client.md", None, tmp_path)


def test_the_program_of_the_joblib_page_runs(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    run_blocks(DOCS / "joblib.md", None, tmp_path)


def test_the_program_of_the_ray_page_runs(tmp_path: Path) -> None:
    run_blocks(DOCS / "ray.md", None, tmp_path)


def test_the_first_program_of_the_readme_runs(tmp_path: Path) -> None:
    said = run_blocks(REPOSITORY / "README.md", 1, tmp_path)
    assert re.search(r"^4\.0", said, re.MULTILINE), said  # a line of the log may come between it and its end


def test_the_plain_graph_of_the_page_of_graphs_runs(tmp_path: Path) -> None:
    client = blocks(DOCS / "client.md", "python")[0]
    graph = blocks(DOCS / "graphs.md", "python")[0]
    program = (
        f"{client}\n{graph}\nassert future.result() == 'sum 13, product 42'\nclient.disconnect()\ncluster.shutdown()"
    )
    done = run_python(program, cwd=str(tmp_path), timeout_seconds=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in _LINK.findall(page.read_text()) if "://" not in target]
    for target in targets:
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not heading or heading in headings(file), target


def headings(page: Path) -> set[str]:
    """As a forge names them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("command", ["scaler_scheduler", "scaler_cluster"])
def test_the_running_page_has_every_flag_and_no_other(command: str) -> None:
    section = re.split(r"^## ", (DOCS / "running.md").read_text(), flags=re.MULTILINE)
    [table] = [part for part in section if part.startswith(f"`{command}")]
    done = subprocess.run([sys.executable, "-m", MODULES[command], "-h"], capture_output=True, text=True, timeout=50)
    known = set(_FLAG.findall(done.stdout)) - {"--config", "--version"}
    told = set(re.findall(r"^\| `(--[a-z-]+)", table, re.MULTILINE))
    assert known == told
