"""The decisions of the Symphony agent. Pure: no clock, no sockets, no threads, no part of Symphony."""
