"""``scaler_keygen DIR``: CURVE keys for a scheduler and its peers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from scaler_protocol import __version__, key_files, keys
from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.runner import run_command
from scaler_protocol.command.settings import argument, option
from scaler_protocol.transport.curve_authentication import new_key_pair
from scaler_protocol.units import DAYS

_DAY_SECONDS = 86_400.0
_DAYS_LIMIT = 36_500.0


@dataclass(frozen=True)
class KeygenSettings:
    directory: str = argument(help="Write the keys to this directory, which is created if it does not exist.")
    name: str = option(
        "", metavar="NAME", help="Make keys with this name (ROLE-NAME.key and .pub), such as alice, instead of a set."
    )
    roles: tuple[str, ...] = option(
        (),
        metavar="ROLE",
        default_text="all; submit with --name",
        help="Make keys for these roles: observe, submit, work, admin.",
    )
    expires_days: float = option(
        0.0, unit=DAYS, minimum=0.0, maximum=_DAYS_LIMIT, help="Let the new keys expire after this long. 0 = never."
    )
    rotate: bool = option(
        False, help="Replace the peers' keys in the directory; the old ones stay valid for --keep-days."
    )
    keep_days: float = option(
        7.0, unit=DAYS, minimum=0.0, maximum=_DAYS_LIMIT, help="Keep the old keys valid for this long after --rotate."
    )


def main() -> NoReturn:
    run_command(
        KeygenSettings,
        _run,
        program="scaler_keygen",
        section="keygen",
        description="Make CURVE keys, which protect a scheduler that other machines can reach.",
        version=__version__,
        distribution="scaler-protocol",
    )


def _run(settings: KeygenSettings) -> None:
    directory = Path(settings.directory)
    try:
        paths = _rotate(settings, directory) if settings.rotate else _generate(settings, directory)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(str(error) if error.errno is None else f"{directory}: {error.strerror}.") from error
    for path in paths:
        print(path)
    for line in _advice(settings, directory):
        print(line)


def _generate(settings: KeygenSettings, directory: Path) -> list[Path]:
    return key_files.generate(directory, new_key_pair, _names(settings), _expiry(settings))


def _rotate(settings: KeygenSettings, directory: Path) -> list[Path]:
    keep_seconds = settings.keep_days * _DAY_SECONDS
    return key_files.rotate(directory, new_key_pair, keep_seconds, _names(settings), _expiry(settings))


def _names(settings: KeygenSettings) -> list[str]:
    """Return the names of the files to write; if there are none, the usual set is written."""
    roles = settings.roles or (("submit",) if settings.name else ())
    return [key_files.name_of_file(role, settings.name) for role in roles]


def _expiry(settings: KeygenSettings) -> float | None:
    return time.time() + settings.expires_days * _DAY_SECONDS if settings.expires_days else None


def _advice(settings: KeygenSettings, directory: Path) -> list[str]:
    if settings.rotate:
        return [
            f"The old keys stay valid for {settings.keep_days:g} days. Before they end, copy all .pub files to the",
            "scheduler's host, and work.pub and work.before-*.pub to all other hosts. Then copy each .key file to the",
            "hosts that use it. Finally, drain and restart the workers that use work.key.",
        ]
    if settings.name:
        return [
            "Copy the .pub files to the directory of keys on the scheduler's host. Give the .key files and",
            f"scheduler.pub to {settings.name}, who must set {keys.VARIABLE} to the directory that contains them.",
        ]
    return [
        "Copy the .pub files to all hosts, scheduler.key to the scheduler's host, and to each other host the key of",
        "its role: observe.key, submit.key or work.key. admin.key grants all roles.",
        f"Set {keys.VARIABLE}={directory.absolute()} on each host.",
    ]


if __name__ == "__main__":
    main()
