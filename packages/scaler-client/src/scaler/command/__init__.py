"""The command ``scaler``: what users and operators ask of a cluster, and do with it, from a shell."""
