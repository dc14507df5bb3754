"""The actions of an agent: sockets, processes, timers. No decision is made here."""
