"""What two peers of Scaler must agree on: messages, codec, addresses, transport and security."""

__version__ = "1.0.0"
