# What states.py and the statuses of messages are to compiled code: the same numbers.

cdef enum:
    STATES = 11
    ENDED = 0
    WAITING = 1
    HELD = 2
    QUEUED = 3
    ASSIGNED = 4
    CANCELLING = 5
    DONE_LARGE = 6
    DECIDING = 7
    PENDING = 8
    STORED = 9
    FREED = 10

cdef enum:
    STATUSES = 16
    SUCCESS = 0
    SUCCESS_LARGE = 1
    EXCEPTION = 2
    EXCEPTION_NOT_SERIALIZABLE = 3
    CANCELLED = 4
    PROCESSOR_DIED = 5
    WORKER_DIED = 9
    OBJECT_MISSING = 10
