"""The differences between the software of workers and a client's, as sentences that say what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scaler_protocol.messages import HostSoftware


def differences(workers: HostSoftware, python_version: str, machine: str, packages: Mapping[str, str]) -> Iterator[str]:
    """``python_version``, ``machine`` and ``packages`` (versions by name): the client's. Only differences that can
    make tasks fail count: those of a bug-fix release do not."""
    host = workers.host
    if _minor(workers.python_version) != _minor(python_version):
        yield (
            f"Workers on {host} have Python {workers.python_version}, but this program has {python_version}: functions "
            "cannot be sent between them. Use the same minor version of Python on both."
        )
    theirs = dict(each.split(" ", 1) for each in workers.packages if " " in each)
    for name, version in sorted(packages.items()):
        if name not in theirs:
            yield (
                f"Workers on {host} have no {name}, but this program has imported it: tasks that use it fail there. "
                f"Install it on {host} (python -m pip install {name}=={version}), or give the client an environment."
            )
        elif _minor(theirs[name]) != _minor(version):
            yield (
                f"Workers on {host} have {name} {theirs[name]}, but this program has {version}: values of {name} may "
                "not be readable there. Install the same version on both, or give the client an environment."
            )
    if _is_lower(workers.machine, machine):
        yield (
            f"Workers on {host} have the processor architecture {workers.machine}, but this program runs on {machine}: "
            "compiled code from here may not run there. Compile it for the lower one."
        )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _is_lower(theirs: str, ours: str) -> bool:
    """Code that was compiled for ``ours`` may not run on ``theirs``. Levels follow the architecture: x86_64-v3."""
    their_architecture, _, their_level = theirs.partition("-v")
    our_architecture, _, our_level = ours.partition("-v")
    return bool(theirs) and (their_architecture != our_architecture or their_level < our_level)
