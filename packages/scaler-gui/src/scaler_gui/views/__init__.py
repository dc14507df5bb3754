"""The widgets: panes, dialogs and what they are made of."""
