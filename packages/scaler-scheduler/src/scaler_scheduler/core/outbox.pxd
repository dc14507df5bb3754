from scaler_scheduler.core.connections cimport PeerConnection
from scaler_scheduler.core.state cimport SchedulerState

cdef send_over(SchedulerState state, PeerConnection connection, body, double now)
cpdef transmit(SchedulerState state, PeerConnection connection, envelope, double now)
cpdef answer(SchedulerState state, bytes session, route, body, double now)
