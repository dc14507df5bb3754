"""Tasks that need something special run only where it is."""

from __future__ import annotations

import os

from scaler import Client, Cluster, SchedulerClusterCombo


def where() -> str:
    return os.environ["SCALER_WORKER_NAME"]


def main() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        graphics = Cluster(cluster.get_address(), 1, worker_names=["graphics"], per_worker_capabilities={"gpu": 1})
        graphics.start()
        try:
            future = client.submit_verbose(where, capabilities={"gpu": 1})
            print(f"the task that needs a gpu ran on: {future.result()}")
            impossible = client.submit_verbose(where, capabilities={"quantum": 1})
            print(f"the other one waits: {client.explain(impossible)}")
            impossible.cancel()
        finally:
            graphics.terminate()
            graphics.join()


if __name__ == "__main__":
    main()
