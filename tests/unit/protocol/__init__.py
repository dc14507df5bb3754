"""Tests of scaler_protocol."""
