"""Find the best settings of a classifier: one task per setting, on scikit-learn's handwritten digits.

Needs scikit-learn (pip install scikit-learn).
"""

from __future__ import annotations

from itertools import product

from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from scaler import Client, SchedulerClusterCombo


def score(images: object, digits: object, penalty: float, width: float) -> float:
    """Mean accuracy over three folds."""
    return float(cross_val_score(SVC(C=penalty, gamma=width), images, digits, cv=3).mean())


def main() -> None:
    images, digits = load_digits(return_X_y=True)
    settings = list(product((0.1, 1.0, 10.0), (1e-4, 1e-3, 1e-2)))
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        sent_images, sent_digits = client.send_object(images), client.send_object(digits)
        accuracies = client.starmap(score, [(sent_images, sent_digits, *setting) for setting in settings])
    for (penalty, width), accuracy in sorted(zip(settings, accuracies, strict=True), key=lambda pair: -pair[1]):
        print(f"C={penalty:<5} gamma={width:<7} accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
