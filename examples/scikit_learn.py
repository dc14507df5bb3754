"""Run scikit-learn on a cluster through joblib: a grid search and a random forest, without a change of their calls.

Needs scikit-learn and joblib (pip install scikit-learn 'scaler-client[joblib]').
"""

from __future__ import annotations

import joblib
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from scaler import Client, SchedulerClusterCombo
from scaler.integrations.joblib import register


def main() -> None:
    register()
    images, digits = load_digits(return_X_y=True)
    search = GridSearchCV(SVC(), {"C": [1.0, 10.0], "gamma": [1e-4, 1e-3]}, cv=2)
    forest = RandomForestClassifier(10, random_state=1)
    with (
        SchedulerClusterCombo(n_workers=2) as cluster,
        Client(cluster.get_address()) as client,
        joblib.parallel_config("scaler", client=client),
    ):
        search.fit(images, digits)
        accuracies = cross_val_score(forest, images, digits, cv=2)
    print(f"best settings: C={search.best_params_['C']}, accuracy {search.best_score_:.2f}")
    print(f"random forest: accuracy {accuracies.mean():.2f}")


if __name__ == "__main__":
    main()
