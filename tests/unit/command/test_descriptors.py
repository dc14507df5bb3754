"""The limit of open descriptors."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import resource
from scaler_protocol.command.descriptors import allow_many_descriptors
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
allow_many_descriptors()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""


def test_the_limit_is_raised_as_far_as_it_goes() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=30)
