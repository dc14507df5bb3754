"""``scaler_keygen DIR``: CURVE keys for a scheduler and its peers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from scaler_protocol import keys
from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.runner import run_command
from scaler_protocol.command.settings import argument
from scaler_protocol.transport.doorkeeper import new_key_pair


@dataclass(frozen=True)
class KeygenSettings:
    directory: str = argument(help="where to write the keys; made when it does not exist")


def main() -> NoReturn:
    run_command(
        KeygenSettings,
        _generate,
        program="scaler_keygen",
        section="keygen",
        description="Make CURVE keys, which protect a scheduler that other machines can reach.",
    )


def _generate(settings: KeygenSettings) -> None:
    directory = Path(settings.directory)
    try:
        paths = keys.generate(directory, new_key_pair)
    except OSError as error:
        raise BadInput(str(error) if error.errno is None else f"{directory}: {error.strerror}.") from error
    for path in paths:
        print(path)
    print("The scheduler's host needs scheduler.key, other hosts the .key of what they do: observe, submit, work, or")
    print("admin for all of it. The .pub files are for all hosts.")
    print(f"Set {keys.VARIABLE}={directory.absolute()} on each.")


if __name__ == "__main__":
    main()
