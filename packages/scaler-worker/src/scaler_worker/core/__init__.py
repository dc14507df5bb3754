"""The decisions of an agent: pure state machines, which receive messages and the time and return effects."""
