"""What monitors see: the messages of the monitor stream, their encoding, and the model behind every screen."""
