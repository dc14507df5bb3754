"""Carries out what the core decides: sockets, timer, signals, the publisher process."""
