"""Other libraries that Scaler works with. Nothing here is imported before it is used."""
