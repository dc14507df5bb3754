"""The most frequent pairs of words in real text: the sources of this Python's library, one task a file."""

from __future__ import annotations

import argparse
import re
import sysconfig
from collections import Counter
from pathlib import Path

from scaler import Client, SchedulerClusterCombo


def count_pairs(path: Path) -> Counter[tuple[str, str]]:
    """Neighbouring words of two letters or more, code and comments alike."""
    words = re.findall(r"[a-z]{2,}", path.read_text(errors="replace").lower())
    return Counter(zip(words, words[1:], strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=400)
    arguments = parser.parse_args()
    library = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(library.glob("**/*.py")) if "encodings" not in path.parts][: arguments.files]
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        total: Counter[tuple[str, str]] = Counter()
        for pairs in client.imap_unordered(count_pairs, files):
            total.update(pairs)  # adds in place; total + pairs would copy everything counted so far, for every file
    print(f"{sum(total.values()):,} pairs in {len(files)} files")
    for (first, second), count in total.most_common(10):
        print(f"{count:>8,}  {first} {second}")


if __name__ == "__main__":
    main()
