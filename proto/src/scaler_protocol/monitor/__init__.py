"""Everything that monitors use: the messages of the monitor stream, their encoding, and the model of every screen."""
