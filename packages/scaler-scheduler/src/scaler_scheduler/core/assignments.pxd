from libc.stdint cimport int64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.places cimport Places
from scaler_scheduler.core.queue_classes cimport QueueClass

cpdef tuple assign_queued(QueueClass source, AgentLoad agent, Places places, int64_t share)
cpdef list assign_reserved(AgentLoad agent, Places places)
cpdef list assign_deferred(AgentLoad agent, Places places)
