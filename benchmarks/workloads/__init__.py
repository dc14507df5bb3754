"""A workload takes an engine and a size and gives figures by name. Each is one function; ``catalogue`` lists them."""
