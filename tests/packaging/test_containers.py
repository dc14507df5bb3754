"""``deploy/containers``: images built by a real buildah on a base image of Debian, and run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from scaler import Client
from scaler_protocol.key_files import generate
from scaler_protocol.transport.curve_authentication import new_key_pair
from tests.packaging.conftest import Built, run, try_to_run
from tests.support.commands import Command
from tests.support.ports import free_port
from tests.support.slurm_site import network_address
from tests.support.waiting import wait_until

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "containers"
COMMANDS = {
    "worker": "scaler_cluster",
    "manager": "scaler_worker_manager",
    "scheduler": "scaler_scheduler",
    "monitor": "scaler_ui",
}


class Buildah:
    """Its images in a folder of their own, built and run without rights that a container of its own may not give. They
    share their layers, which need not be copied where the system can mount one over another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        storage = ("buildah", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver")
        can_mount = try_to_run(*storage, "overlay", "info").returncode == 0
        self._words = (*storage, "overlay" if can_mount else "vfs")

    def __call__(self, *words: object) -> str:
        return run(*self._words, *words).strip()

    def build(self, role: str, context: Path) -> None:
        arguments = ("--build-arg", "BASE=localhost/base", "--build-arg", "PIP_NO_INDEX=yes")
        common = ("--isolation", "chroot", "--layers", *arguments)
        self("build-using-dockerfile", *common, "--target", role, "--tag", f"scaler-{role}", context)

    def remove(self) -> None:
        """With what was mounted for the containers, and for the layers of all."""
        self("rm", "--all")
        try_to_run("umount", self.folder / "storage" / "overlay")
        shutil.rmtree(self.folder)

    def container(self, role: str) -> str:
        return self("from", f"localhost/scaler-{role}")

    def command(self, container: str, *words: object, home: Path | None = None) -> list[str]:
        volume = () if home is None else ("--volume", f"{home}:/run/scaler/home")
        line = (*self._words, "run", "--isolation", "chroot", *volume, container, "--", *words)
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
    wanted = ("scaler-scheduler[prometheus,ui]", "scaler-worker[kubernetes]")
    run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", context / "wheels", "--find-links",
        built.wheels, *wanted)  # fmt: skip
    for role in COMMANDS:
        buildah.build(role, context)
    yield buildah
    buildah.remove()


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


def test_the_manager_has_what_it_needs_for_kubernetes(images: Buildah) -> None:
    """The command ends only because it finds no cluster."""
    line = ("scaler_worker_manager", "kubernetes", "tcp://10.0.0.1:1", "--num-of-workers", 1, "--image", "worker")
    done = try_to_run(*images.command(images.container("manager"), *line))
    assert done.returncode == 2 and "configuration" in done.stderr, done.stderr


def test_a_scheduler_a_monitor_and_workers_in_containers(
    images: Buildah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the network of this host, with keys that belong to the user of the images, and started as in
    ``deploy/kubernetes``."""
    generate(tmp_path / "keys", new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    address, metrics = f"tcp://{network_address()}:{free_port()}", f"127.0.0.1:{free_port()}"
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 10001, 10001)

    def start(role: str, *words: str) -> Command:
        container = images.container(role)
        images("add", "--quiet", "--chown", "10001:10001", container, tmp_path / "keys", "/run/scaler/keys")
        return Command(images.command(container, "env", "SCALER_KEYS=/run/scaler/keys", *words, home=home))

    with (
        start("scheduler", "scaler_scheduler", address, f"--prometheus-address={metrics}"),
        start("worker", "scaler_cluster", address, "-n", "1"),
        Client(address) as client,
    ):
        assert client.submit(abs, -1).result() == 1
        assert client.submit(os.getuid).result() == 10001
        wait_until(lambda: answers(f"http://{metrics}/healthz"))
        with start("monitor", "scaler_ui", address, "--port=0") as monitor:
            assert answers(monitor.wait_for_output(r"http://\S+")[0])


def answers(url: str) -> bool:
    try:
        return urlopen(url, timeout=20).status == 200
    except HTTPError:
        return False
