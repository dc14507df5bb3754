"""A short run of all fuzz targets under the sanitizers, where ``.ci/run`` asks for it: that takes minutes."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys

import pytest

from fuzz.__main__ import UNAVAILABLE
from tests.unit.architecture.sources import REPOSITORY

MINUTES = os.environ.get("SCALER_FUZZ_MINUTES")
BUILD_SECONDS = 900
"""On a slow machine."""


@pytest.mark.skipif(not MINUTES, reason="SCALER_FUZZ_MINUTES says how long to fuzz, and is not set")
@pytest.mark.timeout(BUILD_SECONDS + 120 + 120 * float(MINUTES or 0))
def test_fuzzing_finds_nothing() -> None:
    faulthandler.cancel_dump_traceback_later()  # which pytest has asked for: this takes as long as it was told to
    command = [sys.executable, "-m", "fuzz", "--minutes", str(MINUTES)]
    variables = {"SCALER_FUZZ_OPTIMIZATION": "0", **os.environ}  # most of the time would otherwise be the compiler's
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=False)
    print(done.stdout)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
