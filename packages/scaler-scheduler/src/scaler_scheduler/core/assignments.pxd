from libc.stdint cimport int64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.data_locations cimport DataLocations
from scaler_scheduler.core.priority_queues cimport QueueClass

cpdef tuple assign_queued(
    QueueClass source, AgentLoad agent, DataLocations locations, int64_t share, double now=*, double aging_seconds=*,
    bint one_turn=*
)
cpdef list assign_reserved(AgentLoad agent, DataLocations locations)
cpdef list assign_deferred(AgentLoad agent, DataLocations locations)
