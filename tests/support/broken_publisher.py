"""A publisher that fails as soon as it listens: ``python -m tests.support.broken_publisher FD ADDRESS ...``."""

import socket
import sys

if __name__ == "__main__":
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.send(f"ready {sys.argv[2]}".encode())
    sys.exit(70)
