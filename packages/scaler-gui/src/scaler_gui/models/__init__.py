"""The contents of the panes, without widgets: rows, series, positions. Only QtCore is used here, and only for
tables."""
