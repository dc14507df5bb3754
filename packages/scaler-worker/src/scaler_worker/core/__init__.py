"""What an agent decides: pure state machines, fed with messages and the time, answering with effects."""
