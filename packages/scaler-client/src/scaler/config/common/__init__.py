"""Settings of several commands, under the names that programs written for opengris-scaler use."""
