"""The settings of the command ``scaler_scheduler``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.command import EVENT_LOOPS, LoggingSettings, argument, option


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings(LoggingSettings):
    address: str = argument(help="where to listen, such as tcp://127.0.0.1:2345")
    protected: bool = option(True, "-p", help="refuse a client's request to shut down")
    io_threads: int = option(1, "-it", help="threads that move bytes", minimum=1)
    event_loop: str = option("builtin", "-e", help="event loop", choices=EVENT_LOOPS)
    max_number_of_tasks_waiting: int = option(
        -1,
        "-mt",
        help="tasks that may be queued; beyond it further ones wait outside the queue; -1: no bound",
        minimum=-1,
    )
    monitor_address: str | None = option(
        None, "-ma", help="where monitors connect; default: a private socket, to which a path in /tmp leads"
    )
    event_log: str | None = option(None, help="directory that keeps files of all that monitors are told")
    event_log_limit_bytes: int = option(
        0, help="most that all files there may have together; the oldest are deleted; 0: no bound", minimum=0
    )
    prometheus_address: str | None = option(None, help="where Prometheus reads figures, such as 127.0.0.1:9090")
    prometheus_token_file: str | None = option(
        None, help="file with the bearer token that Prometheus must show; only you may be able to read it"
    )
    client_timeout_seconds: float = option(
        60.0, "-ct", help="how long the tasks of a client that has gone are kept", minimum=0
    )
    worker_timeout_seconds: float = option(
        60.0, "-wt", help="silence after which a worker is given up and its running tasks run elsewhere", minimum=1
    )
    object_retention_seconds: float = option(
        3600.0, "-ot", help="how long a large result that nobody fetches is kept", minimum=0
    )
    load_balance_seconds: float = option(
        1.0, "-ls", help="rest of a worker that had nothing to give back when asked", minimum=0
    )
    load_balance_trigger_times: int = option(
        2, "-lbt", help="how many times running it must have nothing to give back for that", minimum=1
    )
    per_worker_queue_size: int = option(1000, "-qs", help="most tasks that wait at one worker", minimum=1)
    client_memory: int = option(
        0,
        help="bytes of memory for the tasks, objects and results of one client; 0: half of what this host has",
        minimum=0,
    )
    grace_seconds: float = option(10.0, help="time that running tasks get when the scheduler is told to end", minimum=0)
    insecure: bool = option(False, help="listen on a public address without keys")
