"""The packages of environments on this host: installed by a child process, so that the agent goes on meanwhile."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from scaler_protocol.command import module_command
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.remedies import with_remedy
from scaler_worker.package_cache import PackageFolder, acquire
from scaler_worker.package_installation import INSTALLED, failure_text

ATTEMPTS_LIMIT = 3
"""Other agents may remove packages as unused between their installation and their use."""

INSTALLATIONS_LIMIT = 4
"""At a time; others wait. A client may ask for very many environments."""

_ANSWER_BYTES = 65536


class PackageEvents(Protocol):
    """Events of packages."""

    def packages_installed(self, requirements: tuple[str, ...]) -> None:
        """Worker processes find them."""

    def packages_failed(self, requirements: tuple[str, ...], text: str) -> None:
        """They cannot be installed; ``text`` says why and what to do."""


@dataclass(slots=True)
class _Installation:
    process: subprocess.Popen[bytes]
    attempts: int
    answer: bytes = b""


class HostPackages:
    """Holds packages that tasks of this agent need, so that no agent removes them as unused. ``kept``: how many
    directories that no process uses stay on the disk."""

    def __init__(self, loop: GuardedLoop, agent: PackageEvents, kept: int) -> None:
        self._loop = loop
        self._agent = agent
        self._kept = kept
        self._needed: set[tuple[str, ...]] = set()
        self._held: dict[tuple[str, ...], PackageFolder] = {}
        self._installations: dict[tuple[str, ...], _Installation] = {}
        self._waiting: dict[tuple[str, ...], int] = {}  # and the number of the attempt

    def install(self, requirements: tuple[str, ...]) -> None:
        """Answered by one of the events, later."""
        self._needed.add(requirements)
        if requirements not in self._installations and requirements not in self._waiting:
            self._loop.call_soon(self._begin, requirements, 0)

    def release(self, requirements: tuple[str, ...]) -> None:
        """They are not needed any more."""
        self._needed.discard(requirements)
        self._waiting.pop(requirements, None)
        self._end_installation(requirements)
        folder = self._held.pop(requirements, None)
        if folder is not None:
            folder.release()

    def close(self) -> None:
        self._waiting.clear()
        for requirements in [*self._needed]:
            self.release(requirements)

    def _begin(self, requirements: tuple[str, ...], attempts: int) -> None:
        if requirements not in self._needed:
            return  # they were released meanwhile
        try:
            folder = self._held.get(requirements) or acquire(requirements)
            if folder is not None:
                self._held[requirements] = folder
                self._agent.packages_installed(requirements)
            elif attempts >= ATTEMPTS_LIMIT:
                raise OSError("other processes remove the packages at once")
            elif requirements in self._installations:
                return
            elif len(self._installations) >= INSTALLATIONS_LIMIT:
                self._waiting[requirements] = attempts
            else:
                self._start(requirements, attempts + 1)
        except OSError as error:
            self._agent.packages_failed(requirements, failure_text(requirements, with_remedy(error, "this agent")))

    def _start(self, requirements: tuple[str, ...], attempts: int) -> None:
        arguments = (str(os.getpid()), str(self._kept), *requirements)
        command, environment = module_command("scaler_worker.package_installation", *arguments)
        logging.info(f"Installing packages for tasks: {', '.join(requirements)}")
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, process_group=0
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._installations[requirements] = _Installation(process, attempts)
        self._loop.add_reader(process.stdout.fileno(), partial(self._on_readable, requirements))

    def _on_readable(self, requirements: tuple[str, ...]) -> None:
        installation = self._installations[requirements]
        assert installation.process.stdout is not None
        try:
            data = os.read(installation.process.stdout.fileno(), _ANSWER_BYTES)
        except BlockingIOError:
            return
        installation.answer += data
        if not data:
            self._end_installation(requirements)
            self._on_answer(requirements, installation)

    def _on_answer(self, requirements: tuple[str, ...], installation: _Installation) -> None:
        text = installation.answer.decode(errors="replace").strip()
        if text == INSTALLED:
            self._begin(requirements, installation.attempts)
            return
        text = text or failure_text(requirements, "the installer was killed")
        logging.warning(text)
        self._agent.packages_failed(requirements, text)

    def _end_installation(self, requirements: tuple[str, ...]) -> None:
        installation = self._installations.pop(requirements, None)
        if installation is None:
            return
        process = installation.process
        assert process.stdout is not None
        self._loop.remove_reader(process.stdout.fileno())
        process.stdout.close()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        if self._waiting:
            following = next(iter(self._waiting))
            self._loop.call_soon(self._begin, following, self._waiting.pop(following))
