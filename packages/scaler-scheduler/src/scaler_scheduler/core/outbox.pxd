from scaler_scheduler.core.peers cimport Peer
from scaler_scheduler.core.state cimport SchedulerState

cpdef send(SchedulerState state, Peer peer, body, double now)
cpdef transmit(SchedulerState state, Peer peer, envelope, double now)
cpdef answer(SchedulerState state, bytes session, route, body, double now)
