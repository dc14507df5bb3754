"""A host's object store: the process, what its peers use to talk to it, and the layout of what is in it."""
