"""Looks for records without making an object of each (contract; the code is record_scan.pyx)."""

def names_in(records: bytes) -> bytes:
    """The NAME records among these, back to back. Stops at bytes that are no record."""
