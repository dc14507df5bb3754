"""Types of single settings, under the names that programs written for opengris-scaler use."""
