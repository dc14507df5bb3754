"""The processes that run tasks, and the zygote that forks them."""
