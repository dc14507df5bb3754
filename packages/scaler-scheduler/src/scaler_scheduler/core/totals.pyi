"""The number of tasks that are in all tables, and of those that ended with each status (contract of totals.pyx). Only
tables count here."""

from scaler_scheduler.core.events import Recorder

class Totals:
    """The numbers of tasks of all tables together."""

    events: Recorder
    unfinished: int
    """The number of tasks in all tables, among them those whose values are kept."""

    def outcome(self, status: int) -> int: ...
