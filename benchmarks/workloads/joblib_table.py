"""Computations of joblib and scikit-learn, in seconds: by the engine, and by loky with as many workers, in turns."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

_ROUNDS = 3

Backend = Callable[[], AbstractContextManager[Any]]


def joblib_table(engine: Any, scale: int) -> dict[str, float]:
    """``scale``: per cent of the full sizes. Medians of rounds that alternate between the two backends."""
    import joblib

    from scaler.integrations.joblib import register

    register()
    workers = engine.client.n_workers
    backends: dict[str, Backend] = {
        "": lambda: joblib.parallel_config("scaler", client=engine.client),
        "loky_": lambda: joblib.parallel_config("loky", n_jobs=workers),
    }
    figures: dict[str, float] = {}
    for name, make in _COMPUTATIONS.items():
        compute = make(scale / 100)
        seconds: dict[str, list[float]] = {prefix: [] for prefix in backends}
        for turn in range(_ROUNDS + 1):
            for prefix, backend in backends.items():
                taken = _seconds(backend, compute)
                if turn:  # the first round imports modules in the workers
                    seconds[prefix].append(taken)
        for prefix, taken_each in seconds.items():
            figures[f"{name}_{prefix}s"] = statistics.median(taken_each)
    with contextlib.suppress(ImportError):
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
    return figures


def _seconds(backend: Backend, compute: Callable[[], object]) -> float:
    with backend():
        started = time.perf_counter()
        compute()
        return time.perf_counter() - started


# ---- scikit-learn ----------------------------------------------------------------------------------------------------


def _digits(scale: float) -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    count = max(200, int(len(images) * scale))
    return images[:count], digits[:count]


def _grid_search(scale: float) -> Callable[[], object]:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [1e-4, 1e-3, 1e-2]}
    return lambda: GridSearchCV(SVC(), grid, cv=5).fit(*_digits(scale))


def _random_forest(scale: float) -> Callable[[], object]:
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    rows = max(500, int(20_000 * scale))
    data = make_classification(rows, 40, n_informative=20, random_state=1)
    return lambda: RandomForestClassifier(50, random_state=1).fit(*data)


def _cross_validation(scale: float) -> Callable[[], object]:
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.model_selection import cross_val_score

    return lambda: cross_val_score(GradientBoostingClassifier(n_estimators=5), *_digits(scale), cv=10)


def _short_fits(scale: float) -> Callable[[], object]:
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    images, digits = _digits(0.1)
    grid = {"alpha": [0.01 * number for number in range(1, 1 + max(10, int(400 * scale)))]}
    return lambda: GridSearchCV(Ridge(), grid, cv=5).fit(images, digits)


# ---- joblib ----------------------------------------------------------------------------------------------------------


def _short_calls(scale: float) -> Callable[[], object]:
    from joblib import Parallel, delayed

    count = max(100, int(10_000 * scale))
    return lambda: Parallel()(delayed(abs)(number) for number in range(count))


def _large_array(scale: float) -> Callable[[], object]:
    import numpy
    from joblib import Parallel, delayed

    array = numpy.random.default_rng(1).random(max(200_000, int(2_400_000 * scale)))  # 19 MB
    return lambda: Parallel()(delayed(_mean_of)(array, place) for place in range(40))


def _mean_of(array: Any, place: int) -> float:
    return float(array[place::40].mean())


_COMPUTATIONS = {
    "grid_search": _grid_search,
    "random_forest": _random_forest,
    "cross_validation": _cross_validation,
    "short_fits": _short_fits,
    "short_calls": _short_calls,
    "large_array": _large_array,
}
