"""The number of threads that numerical libraries start in a worker process.

OpenMP and the BLAS libraries start as many threads as there are processors, in each process: with a worker for each
processor, their threads would wait for one another."""

from __future__ import annotations

from collections.abc import Mapping

FOR_ALL = "OMP_NUM_THREADS"
"""The libraries that have a variable of their own use this one if theirs is not set."""

VARIABLES = (
    FOR_ALL,
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def thread_limits(worker_count: int, processor_count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for the worker processes of a host: each worker's share of the processors, at least one thread. A
    variable that the environment has stays as it is, and OMP_NUM_THREADS there stands for all."""
    if FOR_ALL in environment:
        return {}
    share = str(max(1, processor_count // worker_count))
    return {variable: share for variable in VARIABLES if variable not in environment}
