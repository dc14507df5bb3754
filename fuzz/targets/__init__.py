"""One module for each fuzz target."""
