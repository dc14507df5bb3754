"""Figures for Prometheus and other machines that read OpenMetrics."""
