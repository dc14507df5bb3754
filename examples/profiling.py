"""What did my task cost? Time, processor time and, when asked for, peak memory."""

from __future__ import annotations

from scaler import Client, SchedulerClusterCombo


def build_table(size: int) -> int:
    return len([str(number) for number in range(size)])


def main() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address(), profiling=True) as client:
        for size in (1_000, 1_000_000):
            future = client.submit(build_table, size)
            future.result()
            facts = future.profiling_info()
            print(
                f"{size:>9,} entries: {facts.duration_s * 1000:8.2f} ms, processor {facts.cpu_time_s * 1000:8.2f} ms, "
                f"peak memory {facts.memory_peak / 2**20:6.1f} MiB"
            )


if __name__ == "__main__":
    main()
