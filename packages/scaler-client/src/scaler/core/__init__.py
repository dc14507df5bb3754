"""The client session as a deterministic state machine: no sockets, clocks or threads."""
