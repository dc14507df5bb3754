"""Small things that other parts share."""
