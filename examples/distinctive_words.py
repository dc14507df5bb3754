"""What is each part of Python's library about? Ask the words in its own source files.

Reads several hundred real text and source files found on this machine (Python's standard library, and documents under
/usr/share), counts words and pairs of words with one task per file, then finds, with one task per collection of files,
the words that stand out there against everything else (tf-idf). All on workers started for the occasion.
"""

from __future__ import annotations

import argparse
import os
import re
import sysconfig
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from math import log, sqrt
from pathlib import Path

from scaler import Client, SchedulerClusterCombo

WORD = re.compile(r"[a-z]{3,}")
KINDS = {".py", ".txt", ".rst", ".md", ".html", ".pm", ".pl", ".sh", ""}
LARGEST_FILE_BYTES = 1_000_000
WORDS_SHOWN = 6
COLLECTIONS_SHOWN = 15


def files_below(folder: Path) -> Iterator[Path]:
    """Text and source files, in a fixed order."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"site-packages", "dist-packages", "test", "tests", "__pycache__"})
        for name in sorted(names):
            file = Path(path, name)
            if file.suffix in KINDS and file.is_file() and 200 < file.stat().st_size < LARGEST_FILE_BYTES:
                yield file


def find_files(limit: int) -> list[Path]:
    """Up to ``limit`` files, the standard library first."""
    folders = [
        Path(sysconfig.get_path("stdlib")),
        *map(Path, ("/usr/share/doc", "/usr/share/perl", "/usr/share/common-licenses")),
    ]
    found: list[Path] = []
    for folder in folders:
        found.extend(files_below(folder))
    return found[:limit]


def collection_of(path: Path) -> str:
    """The package or folder a file belongs to."""
    library = Path(sysconfig.get_path("stdlib"))
    if path.is_relative_to(library):
        parts = path.relative_to(library).parts
        return parts[0] if len(parts) > 1 else "(single modules)"
    return str(path.parent.relative_to("/usr/share"))


def count_words(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Runs on a worker, once per file: its words, and its pairs of neighbouring words."""
    words = WORD.findall(path.read_text(errors="replace").lower())
    pairs = Counter(f"{first} {second}" for first, second in zip(words, words[1:], strict=False))
    return Counter(words), Counter(dict(pairs.most_common(200)))


def added(counts: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def distinctive_words(counts: list[Counter[str]], files_with: dict[str, int], files: int) -> list[str]:
    """Runs on a worker, once per collection: the words frequent here and rare elsewhere."""
    total = added(counts)
    score = {word: sqrt(count) * log(files / files_with[word]) for word, count in total.items() if count > 9}
    return sorted(score, key=lambda word: (-score[word], word))[:WORDS_SHOWN]


def files_with_each_word(counts: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each.keys())
    return total


def largest_collections(paths: list[Path]) -> list[tuple[str, list[int]]]:
    """Names and file numbers of the collections with the most files."""
    numbers: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        numbers.setdefault(collection_of(path), []).append(number)
    return sorted(numbers.items(), key=lambda item: (-len(item[1]), item[0]))[:COLLECTIONS_SHOWN]


def analyse(client: Client, paths: list[Path]) -> int:
    """Print the answer; returns the number of tasks."""
    print(f"counting the words of {len(paths)} files ...", flush=True)
    counted = client.map(count_words, paths)
    words = [each[0] for each in counted]
    files_with = files_with_each_word(words)
    collections = largest_collections(paths)
    print(f"comparing {len(collections)} collections ...\n", flush=True)
    jobs = [[words[number] for number in numbers] for _, numbers in collections]
    relevant = [{word: files_with[word] for count in job for word in count} for job in jobs]
    found = client.map(distinctive_words, jobs, relevant, [len(paths)] * len(jobs))
    show(collections, found, words, [each[1] for each in counted])
    return len(paths) + len(jobs)


def show(
    collections: list[tuple[str, list[int]]],
    found: list[list[str]],
    words: list[Counter[str]],
    pairs: list[Counter[str]],
) -> None:
    print("files  collection                its distinctive words")
    for (name, numbers), distinct in zip(collections, found, strict=True):
        print(f"{len(numbers):5}  {name[:24]:24}  {', '.join(distinct)}")
    common = added(pairs).most_common(6)
    print(f"\nmost common pairs: {', '.join(f'{pair} ({count:,})' for pair, count in common)}")
    print(f"words: {sum(map(Counter.total, words)):,}, of them different: {len(set().union(*words)):,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="workers to start (default: %(default)s)"
    )
    parser.add_argument("--files", type=int, default=1000, help="read at most so many files (default: %(default)s)")
    options = parser.parse_args()
    paths = find_files(options.files)
    print(f"starting a scheduler and {options.workers} workers ...", flush=True)
    with (
        SchedulerClusterCombo(options.workers, logging_level="WARNING") as cluster,
        Client(cluster.get_address()) as client,
    ):
        client.submit(len, "ready").result()
        started = time.perf_counter()
        tasks = analyse(client, paths)
        seconds = time.perf_counter() - started
    print(f"\n{tasks:,} tasks in {seconds:.2f} s: {tasks / seconds:,.0f} tasks/s on {options.workers} workers")


if __name__ == "__main__":
    main()
