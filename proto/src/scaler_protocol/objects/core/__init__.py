"""What the store decides. Nothing here touches memory, sockets or clocks."""
