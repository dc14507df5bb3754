"""``scaler init``: writes the file of a stack that works as it is, and says what else it could contain."""

from __future__ import annotations

from pathlib import Path

from scaler.command.settings import InitSettings
from scaler_protocol.command import BadInput

TEMPLATE = """\
# A Scaler stack: start it with `scaler up {name}`, stop it with `scaler down {name}`.
# Each section is a command; its keys are the options that the command's --help shows. Remove the sections
# that you do not need on this host.

[scheduler]
address = "tcp://127.0.0.1:2345"      # clients connect here: Client("tcp://127.0.0.1:2345")
# address = "tcp://0.0.0.0:2345"      # for other hosts; make keys with scaler_keygen and set SCALER_KEYS
# client-memory = "4GiB"              # limit what one client may keep here
# event-log = "events"                # record, for scaler_top --replay events

[cluster]                             # the workers of this host
# num-of-workers = 4                  # default: one less than the number of CPUs
# per-worker-capabilities = ["gpu=1"]
# object-store-memory = "8GiB"        # for large arguments and results
# max-tasks-per-worker = 1000         # replace worker processes

# [manager]                           # workers elsewhere
# kind = "ssh"                        # or slurm, gridengine, pbs, lsf, kubernetes, local
# address = "tcp://10.0.0.1:2345"     # the scheduler, as the workers reach it
# hosts = ["node1=4", "ann@node2=8"]  # of ssh: where you can log in with a key, and the numbers of workers
# remote-python = "scaler/bin/python" # a Python there with scaler-worker
# maximum-workers = 64                # as many as the tasks need; without it, all of them

[ui]                                  # the web monitor, with scaler-scheduler[ui]; its address is printed at the start
port = 50001
"""


def init(settings: InitSettings) -> int:
    path = Path(settings.file)
    try:
        with path.open("x") as file:
            file.write(TEMPLATE.format(name=settings.file))
    except FileExistsError:
        raise BadInput(f"Cannot write {path}: it exists. Choose another name, or remove it.") from None
    except OSError as error:
        raise BadInput(f"Cannot write {path}: {error.strerror}. Choose another place.") from None
    print(f"Wrote {path}. Edit it, then run: scaler up {path}")
    return 0
