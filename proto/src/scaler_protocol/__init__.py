"""Everything on which two peers of Scaler must agree: messages, codec, addresses, transport and security."""

__version__ = "1.0.0"
