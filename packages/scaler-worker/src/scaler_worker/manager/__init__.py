"""``scaler_worker_manager``: keeps a number of workers running where jobs are started for them."""
