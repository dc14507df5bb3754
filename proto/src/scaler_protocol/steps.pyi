"""The durations of the tasks of a row and when each ended, in two bytes a task.

Tasks that one worker ran one after another end shortly after one another. So what is written is how long each took and
how long after the one before it ended, in microseconds. All little-endian:

===================== ==== ==========================================================================
field                 at
===================== ==== ==========================================================================
age u32               0    of the first task: from its end until all this was written down
exceptions u32        4    how many values follow the columns
durations, u8 each    8    0xFF: 255 or more, the next exception says it
steps, u8 each             from the end of the task before to its own; of the first 0. 0xFF: as above
exceptions, u32 each       in the order of the tasks, of each its duration first
===================== ==== ==========================================================================
"""

from array import array

def spelled_out(data: bytes | memoryview, count: int) -> tuple[array[int], array[int]]:
    """Durations and ages of ``count`` tasks, arrays of type I. Further bytes of ``data`` are ignored. ValueError when
    they are cut off or cannot be."""
