"""The bytes that a task needs, and where they are (contract of inputs.pyx).

Made for one task when it is to be handed out, from the values of its graph and from what its client sent, and asked how
long an agent would have to wait for what it does not have. Compiled code only: see inputs.pxd.
"""

class Inputs:
    """All bytes, and by agent those that are there or on their way there."""
