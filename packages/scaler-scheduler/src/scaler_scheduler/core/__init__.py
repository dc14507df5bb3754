"""The scheduler's decisions, as a deterministic state machine: no clock, no sockets, no threads."""
