"""What an agent does: sockets, processes, timers. No decision is made here."""
