"""The states of a task in the scheduler, and what each message does in each of them.

Rules, in prose:

* A task is one byte of state in its client's table; what has ended is not there any more (ENDED is the absence of a
  task).
* A task has an attempt, counted from 1 and raised each time it is queued again. Only the agent it was last assigned
  to can end it, and only with that attempt: everything else that agents say of it is dropped, so every late or
  repeated message is harmless.
* A cancel ends a task at once unless an agent has it; then the agent is told, and whatever it answers first ends the
  task.
* A large result stays with its agent. Its task is kept (DONE_LARGE) until the client releases it, so that it can run
  again if the agent is lost before.
* After a restart clients state their tasks again. These are HELD for about a second: the first agent that says it
  holds or finished one claims it, the others are queued.

Nodes of graphs (tasks whose options name a graph) have three states more:

* A node is PENDING until the values of its inputs are there, then QUEUED. When its inputs that are not there are all
  assigned to one agent, and that agent has room, it is assigned to it while it is PENDING: a fragment of a graph
  goes to an agent in one message.
* A node that succeeded is STORED: its value is at an agent until its last dependant has ended, then it is FREED. It
  stays in the table until the graph is over, because a lost value that is still needed is made again, and so are
  FREED ones that this takes. A large result for the client is DONE_LARGE until the client has it, then STORED.
* A graph is over when all its nodes have come and each result for the client has reached it or failed. Then its nodes
  leave the table.
* When a node ends without a value, so do all that need it: those an agent has are cancelled there.

====================== ========= ========== ============ ======================= ============================
what happens           PENDING   QUEUED     ASSIGNED     STORED                  FREED
====================== ========= ========== ============ ======================= ============================
last input is there    QUEUED    -          -            -                       -
inputs are at an agent ASSIGNED  -          -            -                       -
success, same attempt  drop      drop       STORED       drop                    drop
last dependant ended   -         -          -            FREED [7]               -
an input's value lost  -         PENDING    same [8]     same                    same
an input ended         CANCELLED CANCELLED  CANCELLING   same                    same
its own value is lost  -         -          -            PENDING+ or FREED       -
a dependant runs again -         -          -            same                    PENDING+ or QUEUED+
withdrawn, agent lost  -         -          PENDING+ [9] PENDING+ or FREED       -
client cancels         ENDED     ENDED      CANCELLING   same                    same
graph is over          ENDED     ENDED      CANCELLING   ENDED [7]               ENDED
====================== ========= ========== ============ ======================= ============================

[7] the agents that have the value are told with a Cancel, which they do not answer. [8] its agent may have the value;
if not it gives the node back. [9] QUEUED+ when all inputs are there. A success that is dropped, or comes for a
cancelled node, is answered with a Cancel, too: the value is not needed.

All tasks:

====================== ========= ========= ========= ============ ============ ============= =======
what happens           WAITING   HELD      QUEUED    ASSIGNED     CANCELLING   DONE_LARGE    ENDED
====================== ========= ========= ========= ============ ============ ============= =======
room in the queue      QUEUED    -         -         -            -            -             -
hold is over           -         QUEUED    -         -            -            -             -
allocation             -         -         ASSIGNED  -            -            -             -
agent holds it         drop [1]  ASSIGNED  drop [1]  same or [1]  same or [1]  drop [1]      keep [2]
result, same attempt   drop      ENDED     drop      ENDED        ENDED        drop          keep [2]
large result           drop      DONE_L.   drop      DONE_LARGE   ENDED [3]    drop          keep [2]
processor died         drop      QUEUED+   drop      QUEUED+ [4]  ENDED        drop          drop
user exception         drop      ENDED     drop      ENDED [5]    ENDED        drop          drop
agent cancelled it     drop      drop      drop      ENDED        ENDED        drop          drop
withdrawn by agent     drop      drop      drop      QUEUED+      ENDED        drop          drop
agent lost             -         -         -         QUEUED+ [6]  ENDED        QUEUED+ [6]   -
client cancels         ENDED     ENDED     ENDED     CANCELLING   same         ENDED [3]     drop
client releases it     ENDED     ENDED     ENDED     CANCELLING   same         ENDED [3]     drop
client clears, leaves  ENDED     ENDED     ENDED     CANCELLING   same         ENDED [3]     -
session begins anew    ENDED     ENDED     ENDED     ENDED [1]    ENDED        ENDED [3]     -
====================== ========= ========= ========= ============ ============ ============= =======

QUEUED+ is QUEUED with the attempt raised. [1] the agent is told to cancel it. [2] kept for a second after the agent
attached (the client may still come), then cancelled there or released. [3] the agent is told to free the object. [4]
three deaths end it with PROCESSOR_DIED, with ``rerun=False`` the first. [5] QUEUED+ while ``retries`` are left. [6]
with ``rerun=False``, or after 20 lost agents, it ends with WORKER_DIED.
"""

from __future__ import annotations

import enum


class TaskState(enum.IntEnum):
    """One byte in the task table."""

    ENDED = 0
    WAITING = 1
    HELD = 2
    QUEUED = 3
    ASSIGNED = 4
    CANCELLING = 5
    DONE_LARGE = 6
    DECIDING = 7
    """Only within the handling of one message: the row left its agent and what becomes of it is being decided."""
    PENDING = 8
    STORED = 9
    FREED = 10


DEPTH_LIMIT = 4095
"""Tasks nested deeper than this are handled as if they were no deeper: agents reach their limit of processes before."""

LENT_LIMIT = 1_000_000
"""An agent that says it has lent more slots is taken to have lent so many."""

DEATHS_LIMIT = 3
LOSSES_LIMIT = 20
