"""The decisions of the store. Nothing here uses memory, sockets or clocks."""
