from scaler_scheduler.core.placement cimport Placement
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.priority_queues cimport QueueClass
from scaler_scheduler.core.fair_shares cimport Shares

cdef class SchedulerState:
    # configuration
    cdef readonly object settings
    cdef readonly double started_at
    # peers
    cdef readonly dict clients
    cdef readonly dict agents
    cdef readonly dict agent_by_index
    cdef readonly dict agents_by_store
    cdef public int next_agent_index
    cdef readonly object lineage
    cdef dict nested_clients
    cdef readonly list nested_to_cancel
    cdef readonly dict ignored
    cdef readonly object unclaimed
    cdef readonly object absent
    cdef readonly object forgotten
    # functions and serializers
    cdef readonly dict functions
    cdef readonly dict function_users
    cdef readonly dict function_loads
    cdef readonly object function_totals
    cdef readonly object ended_clients
    cdef readonly dict serializers
    cdef readonly dict serializer_users
    # queues
    cdef readonly Placement placement
    cdef readonly Shares shares
    cdef readonly object balancer
    cdef readonly bint is_bounded
    cdef readonly dict clients_waiting
    cdef readonly dict graph_clients
    cdef readonly dict introductions
    cdef readonly dict clients_to_part
    cdef readonly dict deepened_options
    cdef object last_options
    cdef QueueClass last_queue
    cdef bint last_is_special
    # actors
    cdef readonly object actors
    cdef dict actors_waiting
    # objects, and what clients share by name
    cdef readonly object objects
    cdef readonly object relays
    cdef readonly object transfers
    cdef readonly dict departures
    cdef readonly dict unknown_owners
    cdef readonly dict lost_inputs
    cdef readonly dict awaited_values
    cdef readonly dict stated_copies
    cdef readonly object locks
    cdef dict lock_requests_by_task
    cdef readonly object named
    cdef dict named_requests_by_task
    # questions
    cdef readonly object action_rates
    cdef readonly object stacks
    cdef readonly object profiles
    cdef readonly object software
    cdef readonly object outputs
    cdef readonly object log
    # timers
    cdef public object next_tick_at
    cdef public object acknowledge_at
    cdef public object housekeeping_at
    cdef public object quit_at
    cdef public object warn_at
    cdef public double recount_at
    cdef public double stalled_at
    # outbox
    cdef public list effects
    cdef public dict clients_with_results
    cdef readonly dict clients_to_acknowledge
    cdef readonly dict agents_with_cancels
    # shutdown
    cdef public bint is_stopping
    cdef public bint has_quit
    cdef readonly dict shutdown_requested_by
    # monitoring
    cdef readonly object totals
    cdef readonly Recorder events
    cdef readonly object malformed_warnings
    cdef readonly object refusal_warnings
    cdef readonly object lock_warnings
    cdef readonly object group_warnings
    cdef public tuple description
    cdef public list await_description

    cpdef forget_queue(self)
