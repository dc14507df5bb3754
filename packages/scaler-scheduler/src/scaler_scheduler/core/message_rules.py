"""The dispatch table: the rule for each type of message body.

``Tasks``, ``Results``, ``Relay`` and ``Hello`` are not here: ``hot_path`` handles them. Bodies that are in neither
place need no rule, because receiving them has done all there is to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler_protocol.messages import (
    ActorsReady,
    AgentAttach,
    Blocked,
    Cancel,
    CancelRefused,
    Clear,
    ClusterInfoRequest,
    ControlRequest,
    ExplainRequest,
    Goodbye,
    Heartbeat,
    HostSoftware,
    Leaving,
    LockRequest,
    ManagerReport,
    NamedRequest,
    ObjectChunk,
    ObjectCredit,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectStored,
    Output,
    OutputReply,
    OutputRequest,
    PrintedOutput,
    ProfileReply,
    ProfileRequest,
    RelayClosed,
    ShutdownRequest,
    StackReply,
    StackRequest,
    StoreAttached,
    StoreStatus,
    Withdrawn,
)
from scaler_scheduler.core import (
    actor_calls,
    agent_messages,
    client_messages,
    control,
    departures,
    heartbeat,
    lock_requests,
    managers,
    named_requests,
    nested_sessions,
    object_messages,
    outputs,
    profile_requests,
    shutdown,
    software,
    stacks,
    unstarted_cancels,
    values,
    withdrawals,
)
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState

CLIENT_RULES: dict[type, Callable[[SchedulerState, ClientPeer, Any, float], None]] = {
    Cancel: client_messages.on_cancel,
    Clear: client_messages.on_clear,
    ObjectChunk: object_messages.on_client_object,
    ObjectStored: object_messages.on_client_object,
    ObjectMissing: object_messages.on_client_missing,
    ObjectRequest: values.on_client_request,
    ObjectCredit: values.on_client_credit,
    ObjectRelease: object_messages.on_client_release,
    ExplainRequest: client_messages.on_explain,
    ClusterInfoRequest: client_messages.on_cluster_info_request,
    ShutdownRequest: shutdown.on_request,
    ControlRequest: control.on_request,
    StackRequest: stacks.on_request,
    OutputRequest: outputs.on_request,
    ProfileRequest: profile_requests.on_request,
    LockRequest: lock_requests.on_request,
    NamedRequest: named_requests.on_request,
    Goodbye: client_messages.on_goodbye,
}

AGENT_RULES: dict[type, Callable[[SchedulerState, Agent, Any, float], None]] = {
    AgentAttach: agent_messages.on_attach,
    ActorsReady: actor_calls.on_ready,
    CancelRefused: unstarted_cancels.on_refused,
    Withdrawn: withdrawals.on_withdrawn,
    Heartbeat: heartbeat.on_heartbeat,
    Blocked: agent_messages.on_blocked,
    RelayClosed: nested_sessions.on_closed,
    ObjectChunk: values.on_agent_chunk,
    ObjectMissing: values.on_agent_chunk,
    ObjectRequest: object_messages.on_agent_request,
    ObjectCredit: object_messages.on_agent_credit,
    ObjectLocations: values.on_locations,
    ObjectStored: object_messages.on_agent_stored,
    ObjectsLost: object_messages.on_lost,
    StoreAttached: object_messages.on_store_attached,
    StoreStatus: object_messages.on_store_status,
    Output: agent_messages.on_output,
    StackReply: stacks.on_reply,
    ProfileReply: profile_requests.on_reply,
    HostSoftware: software.on_report,
    OutputReply: outputs.on_reply,
    PrintedOutput: outputs.on_printed,
    ManagerReport: managers.on_report,
    Leaving: departures.on_leaving,
    Goodbye: agent_messages.on_goodbye,
}
