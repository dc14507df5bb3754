from scaler_scheduler.core.connections cimport Connection
from scaler_scheduler.core.state cimport SchedulerState

cdef send_over(SchedulerState state, Connection connection, body, double now)
cpdef transmit(SchedulerState state, Connection connection, envelope, double now)
cpdef answer(SchedulerState state, bytes session, route, body, double now)
