"""Limits of one message, from any sender. A message that exceeds one of them is malformed.

The table in docs/limits.md lists these limits and those of the scheduler.
"""

from __future__ import annotations

REAL_LIMIT = 1e12
"""A real number is finite and its absolute value is at most this: in microseconds it still fits 64 bits."""

NAME_LIMIT_BYTES = 1024
"""The UTF-8 of a name: of a host, a worker, a capability, a function, a version, an endpoint."""

TEXT_LIMIT_BYTES = 65_536
"""The UTF-8 of any other text."""

ENVIRONMENT_LIMIT_BYTES = 16_384
"""The UTF-8 of the environment of a serializer."""

OBJECT_LIMIT_BYTES = 2**48
"""Maximum size of an object that travels in chunks."""

WORKERS_LIMIT = 10_000
"""Workers of one agent."""

NO_WORKER = 0xFFFF
"""The index that stands for a worker that is unknown or has no index."""

CAPABILITIES_LIMIT = 64
"""Capabilities of one task, or of one agent."""

KEYWORDS_LIMIT = 16_384
"""Keyword arguments of one call."""

SHAPE_LIMIT_BYTES = 65_536
"""Limit of the names, keywords and capabilities of one run of tasks: each part of a run carries all of them."""

SOURCES_LIMIT = 64
"""Endpoints of stores in one message."""

OWNERS_LIMIT = 64
"""Owners of objects in the status of a store."""

FEATURES_LIMIT = 64
"""Features in Hello."""

REASONS_LIMIT = 16
"""Sentences in the report of a worker manager."""

PACKAGES_LIMIT = 64
"""The packages that an agent names to its scheduler."""

HELLO_VALUE_LIMIT = 256
"""Characters of each text in the first Hello of a connection, and bytes of its data."""

ATTEMPT_LIMIT = 2**31 - 1
"""Attempts of one task."""

ACTOR_CONCURRENCY_LIMIT = 400
"""Calls of one actor that run at the same time."""
