"""How a worker manager starts jobs: one module per kind."""
