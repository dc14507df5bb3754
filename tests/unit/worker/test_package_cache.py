"""The directories of packages that processes of one user share, and what installers say."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest

from scaler_worker import package_installation
from scaler_worker.package_cache import acquire, cache_directory, fill, path_of, remove_unused
from scaler_worker.package_installation import InstallationError, failure_text, installer, last_line


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def write(folder: str) -> None:
    Path(folder, "painter.py").write_text("")


def present() -> list[str]:
    return sorted(name for name in os.listdir(cache_directory()) if not name.endswith(".lock"))


def used(name: str, at: float) -> None:
    """Installed, and last used then."""
    fill([name], write)
    os.utime(path_of([name]) + ".lock", (at, at))


def test_packages_are_installed_once() -> None:
    calls: list[str] = []
    assert acquire(["painter"]) is None
    for _ in range(2):
        fill(["painter"], lambda folder: (calls.append(folder), write(folder))[0])
    folder = acquire(["painter"])
    assert folder is not None and os.listdir(folder.path) == ["painter.py"] and len(calls) == 1
    assert os.stat(cache_directory()).st_mode & 0o777 == 0o700
    folder.release()
    assert acquire(["painter", "brush"]) is None


def test_a_second_installation_waits_for_the_first() -> None:
    begun, goes_on, calls = threading.Event(), threading.Event(), []

    def install(folder: str) -> None:
        calls.append(folder)
        begun.set()
        goes_on.wait(20)
        write(folder)

    threads = [threading.Thread(target=fill, args=(["painter"], install)) for _ in range(2)]
    threads[0].start()
    begun.wait(20)
    threads[1].start()
    assert acquire(["painter"]) is None
    remove_unused(0)
    goes_on.set()
    for thread in threads:
        thread.join(20)
    assert len(calls) == 1 and len(present()) == 1


def test_a_failed_installation_leaves_nothing() -> None:
    def fail(folder: str) -> None:
        write(folder)
        raise InstallationError("no")

    with pytest.raises(InstallationError):
        fill(["painter"], fail)
    assert os.listdir(cache_directory()) == []


def test_the_packages_that_were_used_last_are_kept() -> None:
    for at, name in enumerate(["old", "middle", "new"], 1000):
        used(name, at)
    remove_unused(2)
    assert present() == sorted(os.path.basename(path_of([name])) for name in ("middle", "new"))


def test_packages_in_use_are_not_removed() -> None:
    used("old", 1000)
    folder = acquire(["old"])
    assert folder is not None
    remove_unused(0)
    assert os.path.isdir(folder.path)
    folder.release()
    remove_unused(0)
    assert os.listdir(cache_directory()) == []


def test_a_use_makes_packages_young() -> None:
    used("old", 1000)
    used("new", 1001)
    folder = acquire(["old"])
    assert folder is not None
    folder.release()
    remove_unused(1)
    assert present() == [os.path.basename(path_of(["old"]))]


def test_what_a_killed_installation_has_left_is_removed() -> None:
    used("other", 1000)
    path = path_of(["painter"])
    os.mkdir(path + ".half")
    Path(path + ".lock").touch()
    remove_unused(1)
    assert present() == [os.path.basename(path_of(["other"]))]


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", cache_directory())
    with pytest.raises(PermissionError, match="another user can write to it"):
        fill(["painter"], write)


def test_a_directory_that_others_can_write_to_is_refused() -> None:
    os.mkdir(cache_directory())
    os.chmod(cache_directory(), 0o777)
    with pytest.raises(PermissionError, match="another user can write to it"):
        acquire(["painter"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Looking\nERROR: No match for x\n[notice] A new release\n", "No match for x"),
        ("Using Python\nerror: No solution\n  cause: x was not found.\n", "No solution: x was not found."),
        ("error: It failed\n  cause: tcp error\n  cause: Connection refused\n", "It failed: Connection refused"),
        ("  × No solution found:\n  ╰─▶ Because x was not found.\n\n", "Because x was not found."),
        ("Traceback\nOSError: [Errno 28] No space left on device\n", "OSError: [Errno 28] No space left on device"),
        (
            "ERROR: Cannot install x==1 and x==2\n\nERROR: ResolutionImpossible: for help visit https://pip\n",
            "Cannot install x==1 and x==2",
        ),
        ("ERROR: Exception:\nTraceback\nAssertionError: odd\n", "AssertionError: odd"),
        (
            "WARNING: Retrying after connection broken by 'no route': /simple/x/\nERROR: No match for x\n",
            "No match for x: a package index or address did not answer",
        ),
        (
            "error: connection-failed\n\n× Failed to connect to host\n╰─> [Errno 111] refused\n\nhint: Are you?\n",
            "Failed to connect to host: [Errno 111] refused",
        ),
        (
            "error: subprocess-exited-with-error\n\n× It did not run.\n│ exit code: 1\n╰─> [1 lines of output]\n  no\n",
            "It did not run.",
        ),
        ("error: not-a-problem\n", "not-a-problem"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_last_line_of_an_installer(text: str, line: str) -> None:
    assert last_line(text) == line


def test_a_failure_is_one_sentence_that_names_the_requirements() -> None:
    text = failure_text(["painter==1", "x" * 300], "No match.")
    assert text.startswith("Cannot install painter==1, xxx") and ": No match. Correct the requirements" in text
    assert len(text) < 400 and "\n" not in text


def test_a_host_without_an_installer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_installation.shutil, "which", lambda *arguments, **named: None)
    monkeypatch.setattr(package_installation, "find_spec", lambda name: None)
    with pytest.raises(InstallationError, match="neither uv nor pip"):
        installer()


def test_uv_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_installation.shutil, "which", lambda *arguments, **named: "/bin/uv")
    assert installer()[:3] == ["/bin/uv", "pip", "install"]
