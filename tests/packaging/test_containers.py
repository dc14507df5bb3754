"""``deploy/containers``: images built by a real buildah on a base image of Debian, and run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.key_files import generate
from scaler_protocol.transport.curve_authentication import new_key_pair
from tests.packaging.conftest import Built, run, try_to_run
from tests.support.commands import Command, free_port
from tests.support.slurm_site import network_address

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "containers"
COMMANDS = {"worker": "scaler_cluster", "scheduler": "scaler_scheduler"}
"""The roles that are built here. The others have the same steps, and building takes long."""


class Buildah:
    """Its images in a folder of their own, built and run without rights that a container of its own may not give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._words = ("buildah", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs")

    def __call__(self, *words: object) -> str:
        return run(*self._words, *words).strip()

    def build(self, role: str, context: Path) -> None:
        arguments = ("--build-arg", "BASE=localhost/base", "--build-arg", "PIP_NO_INDEX=yes")
        common = ("--isolation", "chroot", "--layers=false", *arguments)
        self("build-using-dockerfile", *common, "--target", role, "--tag", f"scaler-{role}", context)

    def container(self, role: str) -> str:
        return self("from", f"localhost/scaler-{role}")

    def command(self, container: str, *words: object) -> list[str]:
        line = (*self._words, "run", "--isolation", "chroot", container, "--", *words)
        return [str(word) for word in line]


@pytest.fixture(scope="module")
def images(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Skips where there are no tools for containers, or where the system has another Python."""
    missing = [
        each
        for each in ("buildah", "debootstrap")
        if shutil.which(each) is None and not Path("/usr/sbin", each).exists()
    ]
    if missing or os.geteuid() != 0:
        pytest.skip(f"there is no {missing[0]}" if missing else "containers are built as root")
    folder = tmp_path_factory.mktemp("containers")
    buildah = Buildah(folder)
    _make_base(buildah)
    context = folder / "context"
    shutil.copytree(FOLDER, context)
    shutil.copytree(built.wheels, context / "wheels")
    wanted = ("scaler-scheduler", "scaler-worker")
    run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", context / "wheels", "--find-links",
        built.wheels, *wanted)  # fmt: skip
    for role in COMMANDS:
        buildah.build(role, context)
    yield buildah
    shutil.rmtree(folder, ignore_errors=True)


def _make_base(buildah: Buildah) -> None:
    system = dict(line.partition("=")[::2] for line in Path("/etc/os-release").read_text().splitlines())
    base = buildah.folder / "base"
    packages = "--include=python3,python3-venv"
    done = try_to_run("/usr/sbin/debootstrap", "--variant=minbase", packages, system.get("VERSION_CODENAME", ""), base,
                      PATH="/usr/sbin:/usr/bin:/sbin:/bin")  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"debootstrap: {done.stdout[-500:]}{done.stderr[-500:]}")
    version = "python{}.{}".format(*sys.version_info[:2])
    if not (base / "usr" / "bin" / version).exists():
        pytest.skip(f"the system has no {version}")
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, base, "/")
    buildah("commit", "--quiet", container, "localhost/base")
    buildah("rm", container)
    shutil.rmtree(base)


@pytest.mark.parametrize(("role", "program"), COMMANDS.items())
def test_each_image_runs_its_command_without_rights(images: Buildah, role: str, program: str) -> None:
    container = images.container(role)
    said = run(*images.command(container, program, "--version"))
    assert said.startswith(f"{program} ")
    assert run(*images.command(container, "id", "--user")).strip() == "10001"
    writable = run(*images.command(container, "sh", "-c", "find / -xdev -writable -type d 2>/dev/null; true")).split()
    assert {path for path in writable if not path.startswith(("/proc", "/sys", "/dev"))} <= {
        "/tmp", "/var/tmp", "/run/lock", "/run/scaler", "/run/scaler/home"
    }  # fmt: skip


def test_no_image_has_a_compiler_or_pip_on_its_own(images: Buildah) -> None:
    container = images.container("scheduler")
    assert try_to_run(*images.command(container, "sh", "-c", "command -v cc gcc")).returncode != 0
    assert try_to_run(*images.command(container, "python3", "-m", "pip", "--version")).returncode != 0


def test_a_scheduler_and_workers_in_containers_run_tasks(
    images: Buildah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the network of this host, with keys that belong to the user of the images."""
    generate(tmp_path / "keys", new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    address = f"tcp://{network_address()}:{free_port()}"

    def start(role: str, *words: str) -> Command:
        container = images.container(role)
        images("add", "--quiet", "--chown", "10001:10001", container, tmp_path / "keys", "/run/scaler/keys")
        return Command(images.command(container, "env", "SCALER_KEYS=/run/scaler/keys", *words))

    with (
        start("scheduler", "scaler_scheduler", address),
        start("worker", "scaler_cluster", address, "-n", "1"),
        Client(address) as client,
    ):
        assert client.submit(abs, -1).result() == 1
        assert client.submit(os.getuid).result() == 10001
