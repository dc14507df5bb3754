"""The number of tasks that ended with each status, over all tables (contract of totals.pyx). Only tables count here."""

from scaler_scheduler.core.events import Recorder

class Totals:
    """The number of tasks that ended with each status, over all tables."""

    events: Recorder
    def outcome(self, status: int) -> int: ...
