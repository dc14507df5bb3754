"""What the Symphony agent decides. Pure: no clock, no sockets, no threads, and nothing of Symphony's."""
