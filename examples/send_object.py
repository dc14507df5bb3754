"""Send a large argument once and use it in many tasks."""

from __future__ import annotations

from scaler import Client, SchedulerClusterCombo


def count_multiples(numbers: list[int], divisor: int) -> int:
    return sum(1 for number in numbers if number % divisor == 0)


def main() -> None:
    numbers = list(range(200_000))
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        reference = client.send_object(numbers, name="numbers")
        counts = client.starmap(count_multiples, [(reference, divisor) for divisor in range(2, 10)])
        for divisor, count in zip(range(2, 10), counts, strict=True):
            print(f"multiples of {divisor}: {count:,}")


if __name__ == "__main__":
    main()
