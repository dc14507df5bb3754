"""The start of jobs by a worker manager: one module per kind."""
