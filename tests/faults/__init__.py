"""Random faults on real processes: ``python -m tests.faults`` breaks a cluster at random while clients use it, and
checks every result. docs/reliability.md says what may fail."""
