"""Settings of one command each, under the names that programs written for opengris-scaler use."""
