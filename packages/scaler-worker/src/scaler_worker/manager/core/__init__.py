"""The decisions of a worker manager: which jobs it starts and stops, and when."""
