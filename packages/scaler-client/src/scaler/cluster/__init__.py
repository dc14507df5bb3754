"""A scheduler and workers on this machine, for applications and tests."""
