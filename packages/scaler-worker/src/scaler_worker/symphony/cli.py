"""``scaler_symphony_cluster``: workers that run tasks through IBM Spectrum Symphony."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.command import run_command, setup_logging
from scaler_protocol.command.log_tail import log_tail
from scaler_worker import __version__
from scaler_worker.symphony.config import SymphonySettings


def main(arguments: Sequence[str] | None = None) -> None:
    run_command(
        SymphonySettings, _run, program="scaler_symphony_cluster", section="symphony",
        description="Run the scheduler's tasks on IBM Spectrum Symphony, using the Symphony service SERVICE.",
        version=__version__,
        distribution="scaler-worker", arguments=arguments,
    )  # fmt: skip


def _run(settings: SymphonySettings) -> int:
    setup_logging(settings)
    from scaler_worker.symphony.agent import run_agent

    with log_tail() as tail:
        return run_agent(settings, tail)


if __name__ == "__main__":
    main()
