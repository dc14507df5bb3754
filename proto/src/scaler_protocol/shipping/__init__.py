"""Modules whose source travels from clients to worker processes."""
