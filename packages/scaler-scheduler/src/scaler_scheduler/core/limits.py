"""What one client or one agent may take of the scheduler, so that the others keep their share.

This is the table of these limits; docs/limits.md explains each, and ``scaler_protocol.limits`` has those of a single
message. Every peer is compared with the table once per tick, which costs the path of tasks nothing: between two ticks a
peer adds no more than its connection carries. A peer beyond a limit loses its session, and is told which limit it was.
"""

from __future__ import annotations

from scaler_protocol.messages import MESSAGE_LIMIT_BYTES

CLIENT_MEMORY_BYTES = 4 << 30
"""Of tasks, objects, functions and unread results of one client, unless the settings say otherwise."""

UNREAD_MESSAGES_LIMIT = 500_000
"""Messages to one peer that it has not acknowledged. Those with results end much earlier: its tasks pause."""

UNREAD_TEXT = f"Cannot keep more than {UNREAD_MESSAGES_LIMIT} messages that a peer has not acknowledged."

NESTED_SESSIONS_LIMIT = 10_000
"""Clients inside the tasks of one agent."""

IDLE_SESSIONS_LIMIT = 10_000
"""Clients whose connection has ended and that have no tasks, of all together. The oldest end: should such a client come
back, it gets a new session and loses nothing."""

DEMANDS_LIMIT = 2_000
"""Different combinations of capabilities and depth that queued or running tasks have, of all clients together."""

FUNCTION_BYTES = 512
"""What a function or a serializer takes beside its bytes."""

CERTIFICATE_LIMIT_BYTES = 65_536
"""Of what an agent tells of the death of a worker process; it is kept until the task has ended."""

DESCRIPTION_SECONDS = 0.1
"""How long one description of the cluster answers all who ask for it."""

IGNORED_LIMIT = 10_000
"""Sessions that were refused, and of which nothing but a Hello is looked at."""

STATED_CANCELS_LIMIT = 100_000
"""Of one client: cancels of tasks that the scheduler does not know yet, because it has been restarted. Agents are told
of the others a second later."""

TASKS_LIMIT_BYTES = MESSAGE_LIMIT_BYTES * 3 // 2
"""Of a message with tasks: with the functions that they need it must fit one to an agent. Clients send far less."""

TOO_LARGE_TEXT = f"Tasks are sent in messages of at most {TASKS_LIMIT_BYTES} bytes."
