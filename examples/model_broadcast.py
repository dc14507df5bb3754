"""A large model goes to every worker once, and scores many small batches there."""

from __future__ import annotations

import os
import time

import numpy

from scaler import Client, SchedulerClusterCombo


class Model:
    """Stands for one with many weights: a linear layer of 200 MB."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.weights = numpy.random.default_rng(3).random((outputs, inputs), dtype=numpy.float32)

    def predict(self, inputs: numpy.ndarray) -> numpy.ndarray:
        return self.weights[:64] @ inputs


def score(model: Model, seed: int) -> tuple[int, float]:
    inputs = numpy.random.default_rng(seed).random(model.weights.shape[1], dtype=numpy.float32)
    return os.getpid(), float(model.predict(inputs).max())


def main() -> None:
    model = Model(inputs=10_000, outputs=5_000)
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        started = time.perf_counter()
        reference = client.send_object(model, name="model")
        scores = client.starmap(score, [(reference, seed) for seed in range(200)])
        seconds = time.perf_counter() - started
        workers = {worker for worker, _ in scores}
        size = model.weights.nbytes / 1e6
        print(f"{len(scores)} batches by {len(workers)} workers with a model of {size:.0f} MB in {seconds:.2f} s")
        print(f"best score {max(best for _, best in scores):.1f}")


if __name__ == "__main__":
    main()
