"""``scaler_top``: the monitor for a terminal. It uses nothing else of this distribution."""
