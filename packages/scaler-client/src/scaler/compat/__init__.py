"""Interfaces of other engines."""
