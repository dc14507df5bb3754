"""Threads, sockets and clocks around the session."""
