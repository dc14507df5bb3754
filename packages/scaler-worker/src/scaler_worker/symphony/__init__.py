"""``scaler_symphony_cluster``: an agent whose workers are tasks of a service in IBM Spectrum Symphony."""
