"""The client: calls become tasks, results become futures."""
