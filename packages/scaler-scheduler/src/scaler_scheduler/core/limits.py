"""The part of the scheduler that one client or one agent may use, so that the others keep their share.

This is the table of these limits. docs/limits.md explains each of them; ``scaler_protocol.limits`` has those of single
messages. ``limit_checks`` compares every peer with the table once per tick, which does not slow tasks down: between two
ticks a peer adds no more than its connection carries. A peer that exceeds a limit loses its session, and is told which
limit it was.
"""

from __future__ import annotations

from scaler_protocol.messages import MESSAGE_LIMIT_BYTES

CLIENT_MEMORY_BYTES = 4 << 30
"""Memory for the tasks, objects, functions and unread results of one client, unless the settings say otherwise."""

UNREAD_MESSAGES_LIMIT = 500_000
"""Messages that one peer has not acknowledged. Messages with results are limited much earlier, by pausing tasks."""

FEW_MESSAGES = 16
"""The bytes of unacknowledged messages are not measured for a peer that has at most this many of them."""

UNREAD_BYTES_TEXT = "Cannot keep more than {} MiB of messages that an agent has not acknowledged."
UNREAD_TEXT = f"Cannot keep more than {UNREAD_MESSAGES_LIMIT} messages that a peer has not acknowledged."

NESTED_SESSIONS_LIMIT = 10_000
"""Clients inside the tasks of one agent."""

IDLE_SESSIONS_LIMIT = 10_000
"""Clients without a connection and without tasks, in total. The oldest end. Such a client loses nothing: when it comes
back, it gets a new session."""

GROUPS_LIMIT = 1_000
"""Groups of clients that share the workers, at a time."""

DEMANDS_LIMIT = 2_000
"""Combinations of capabilities and depth among the queued and running tasks of all clients."""

FUNCTION_BYTES = 512
"""The memory of a function or a serializer in addition to its bytes."""

CERTIFICATE_LIMIT_BYTES = 65_536
"""Maximum size of the report on the death of a worker process, which is kept until the task has ended."""

DESCRIPTION_SECONDS = 0.1
"""Seconds for which one description of the cluster answers all requests for it."""

IGNORED_LIMIT = 10_000
"""Sessions that were refused, and of which only a Hello is considered."""

STATED_CANCELS_LIMIT = 100_000
"""Cancels of one client for tasks that the scheduler does not know yet, because it has been restarted. Agents receive
further ones a second later."""

TASKS_LIMIT_BYTES = MESSAGE_LIMIT_BYTES * 3 // 2
"""Maximum size of a message with tasks: together with the functions that they need, they must fit a message to an
agent. Clients send far less."""

TOO_LARGE_TEXT = f"Tasks are sent in messages of at most {TASKS_LIMIT_BYTES} bytes."
