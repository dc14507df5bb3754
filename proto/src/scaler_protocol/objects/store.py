"""``python -m scaler_protocol.objects.store CLUSTER``: the store process of this host and cluster.

The first process that needs a store starts one. The started process ends as soon as its child listens, or as another
store does already; the child lives in a session of its own and ends when its last peer is gone.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys

from scaler_protocol.command.descriptors import allow_many_descriptors
from scaler_protocol.command.inherited import restore_signals
from scaler_protocol.command.interpreter import restore_environment
from scaler_protocol.objects.names import NAME_IS_TAKEN, REFUSED, socket_name

_BACKLOG = 1024


def main() -> int:
    """``NAME_IS_TAKEN`` if another process has the name of the socket, which is usually a store that was first.
    ``REFUSED`` and the number of an error if the system allows no process."""
    restore_environment()
    restore_signals()
    bound = _bind(bytes.fromhex(sys.argv[1]))
    if bound is None:
        return NAME_IS_TAKEN
    listens, listening = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        return REFUSED + (error.errno or 0)
    if child:
        os.close(listening)
        os.read(listens, 1)  # ends when the child listens, or has failed
        return 0
    os.close(listens)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for its peers
    bound.listen(_BACKLOG)  # not before the fork: peers are told the number of the process that called this
    os.close(listening)
    allow_many_descriptors()
    from scaler_protocol.command.log_tail import log_tail  # only the one that serves needs these
    from scaler_protocol.command.logs import PlainRecord
    from scaler_protocol.objects.server import ObjectServer

    logging.setLogRecordFactory(PlainRecord)
    logging.getLogger().setLevel(logging.INFO)  # agents decide what they show of it
    with log_tail() as tail:
        try:
            ObjectServer(bound, tail).run()
        except SystemExit as ended:  # it is broken
            return int(ended.code or 0)
    return 0


def _bind(cluster: bytes) -> socket.socket | None:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind("\0" + socket_name(cluster)[1:])
    except OSError:
        bound.close()
        return None
    return bound


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
