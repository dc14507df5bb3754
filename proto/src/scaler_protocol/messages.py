"""Every message two peers exchange, as plain values.

An :class:`Envelope` numbers a body within one link (see ``link``); a body is one of the classes below. Bodies are
compared with ``==``. Hot bodies (:class:`Tasks`, :class:`Results`) carry runs, which are Cython columns (``codec``);
all others are small (``bodies``). Sessions are 16 random bytes; a peer is named by its session.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, Union

from scaler_protocol.envelope import Envelope as Envelope
from scaler_protocol.envelope import Results as Results
from scaler_protocol.envelope import Tasks as Tasks
from scaler_protocol.value import value

PROTOCOL_MAJOR = 1
PROTOCOL_MINOR = 4

HELLO_LIMIT_BYTES = 8 * 1024
"""Nothing larger is read of a peer that has not authenticated."""

INLINE_LIMIT_BYTES = 32 * 1024
"""An argument, function or result above this size travels as an object, in chunks."""

MESSAGE_LIMIT_BYTES = 1024 * 1024
"""No message is larger: it must cross the network within the heartbeat timeout."""

CHUNK_SIZE_BYTES = 512 * 1024
OBJECT_WINDOW_BYTES = 8 * CHUNK_SIZE_BYTES
"""Object bytes that may be under way to one receiver before it grants more."""

CREDIT_WITHOUT_END = 2**64 - 1
"""The offset of a credit that says: no more is wanted, or needed."""

UPLOAD_NUMBER = 2**63
"""Numbers of uploaded arguments count down from the top to this, ids of tasks count up and stay below."""

PRIVATE_UPLOAD_NUMBER = 2**63 + 2**62
"""The least number of private uploads: each task gets a copy of its own. The tasks of a worker process may share one
loaded copy of an upload with a smaller number."""


class Role(enum.IntEnum):
    """The permissions of a peer. The values are part of the wire format and never change."""

    OBSERVE = 0
    SUBMIT = 1
    WORK = 2
    ADMIN = 3


class Status(enum.IntEnum):
    """The way a task ended, one byte in a result column. Payloads: see docs/protocol.md."""

    SUCCESS = 0
    SUCCESS_LARGE = 1  # payload: size, u64 little-endian; the bytes are object ObjectKey(session, task)
    EXCEPTION = 2  # raised by the user's function; payload: pickled (exception bytes, type name, message, traceback)
    EXCEPTION_NOT_SERIALIZABLE = 3  # same payload, exception bytes empty
    CANCELLED = 4
    PROCESSOR_DIED = 5  # payload: JSON list of death certificates (from an agent: one certificate)
    TIMED_OUT = 6  # payload: UTF-8 sentence
    MEMORY_EXCEEDED = 7  # payload: UTF-8 sentence
    DESERIALIZE_FAILED = 8  # function or argument did not load; payload as EXCEPTION
    WORKER_DIED = 9  # made by the scheduler; payload: UTF-8 sentence
    OBJECT_MISSING = 10  # payload: UTF-8 sentence
    NO_WORKER = 11  # payload: UTF-8 sentence
    NOT_FOUND = 12  # made by the scheduler, for a call of an actor of no client that it knows; payload: UTF-8 sentence


class RefusalReason(enum.IntEnum):
    VERSION = 0
    TOKEN = 1
    ROLE = 2
    MALFORMED = 3
    SESSION = 4  # the session in Hello is not the routing id of the connection
    OTHER = 5


class ObjectKey(NamedTuple):
    """Names bytes above the inline limit: a result (owner is the session, number the task), an uploaded argument
    (number counts down from 2**64 - 1; from ``PRIVATE_UPLOAD_NUMBER - 1`` if its tasks may share one loaded copy) or a
    function (owner is its digest, number 0)."""

    owner: bytes
    number: int


class TaskName(NamedTuple):
    """One execution of a task, and how deep it is nested."""

    session: bytes
    task: int
    attempt: int
    depth: int = 0


UNITS_PER_WHOLE = 1_000_000
"""Capabilities are counted in millionths."""

UNLIMITED_AMOUNT = 10**9
"""A worker that offers so much runs any number of tasks that need the capability, which share all its devices."""


@value(frozen=True, slots=True)
class Capability:
    """A named amount that a worker offers or a task requires. ``millionths`` add to ``amount``: a part of a device."""

    name: str
    amount: int = 1
    millionths: int = 0

    @property
    def units(self) -> int:
        """The whole amount in millionths."""
        return self.amount * UNITS_PER_WHOLE + self.millionths


MAP_TASKS_UNKNOWN = 2**32 - 1


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Properties that the tasks of a run share, in addition to function and client. Frozen, hashable: runs join if
    their options are equal."""

    priority: int = 0
    depth: int = 0
    retries: int = 0
    rerun: bool = True
    timeout_seconds: float = 0.0  # 0: none
    memory_bytes: int = 0  # 0: none
    profiling: bool = False
    stream_output: bool = False
    capabilities: tuple[Capability, ...] = ()
    intermediate: bool = False  # for its dependants, not for the client, to whom a failure still goes
    graph: int = 0  # number of the graph inside its session; 0: none
    shares_values: bool = False  # it changes none of its arguments: these may be the very objects that others made
    grows: bool = False  # of a graph: later tasks name none whose result the client has released
    hosts_actor: bool = False  # it makes an actor, and ends when the actor ends
    actor: int = 0  # a call of the actor that this task of the session has made; 0: none
    actor_session: bytes = b""  # the session of that task; empty: that of the call
    max_concurrency: int = 0  # with hosts_actor: so many calls of the actor run at the same time; 0: one
    map_number: int = 0  # of the map that they belong to, inside their session, for monitors; 0: none
    map_tasks: int = 0  # that the map will have when all have come; 0: those that have; MAP_TASKS_UNKNOWN: not known
    submitted_at: float = 0.0  # for spans: seconds since 1970, by the client's clock; 0: there are none
    ready_at: float = 0.0  # of a node, by that clock: when its inputs were there; 0: unknown, or they are not
    actor_name: str = ""  # with hosts_actor: that get_actor finds, for monitors; empty: none


DEFAULT_OPTIONS = TaskOptions()
"""Nearly all tasks have these options: a caller that passes this very object saves a comparison for each message."""


@value(frozen=True, slots=True)
class FunctionDefinition:
    """A function, or a serializer, by content. ``payload`` is its pickle, or empty when ``size`` is over the inline
    limit: then the bytes are object ``ObjectKey(digest, 0)``."""

    digest: bytes  # blake2b, 16 bytes, of the pickle
    name: str  # qualified name, for people
    payload: bytes
    size: int
    environment: str = ""  # of a serializer: an Environment as text, in which the tasks run; empty: none
    module: str = ""  # in which the function is defined, for people; empty: not known


# ---- frozen ----------------------------------------------------------------------------------------------------


@value(frozen=True, slots=True)
class Hello:
    """First message on every connection and after every reconnection. Unnumbered (sequence 0)."""

    role: Role
    session: bytes
    epoch: int = 0  # the scheduler's epoch this peer last was welcomed in; 0: none
    received: int = 0  # highest sequence received from the scheduler in that epoch
    major: int = PROTOCOL_MAJOR
    minor: int = PROTOCOL_MINOR
    distribution: str = ""
    distribution_version: str = ""
    python_version: str = ""
    host: str = ""
    pid: int = 0
    token: bytes = b""  # always empty: versions before 1.2 sent the token here
    features: tuple[str, ...] = ()
    parent_session: bytes = b""  # a nested client: the task it lives in
    parent_task: int = 0
    parent_attempt: int = 0
    number: int = 0  # counts the Hellos of this session
    parent_depth: int = 0  # how deep the task it lives in is nested itself
    nonce: bytes = b""  # 32 bytes, fresh for each number; empty: no proof is asked for or given
    challenge: bytes = b""  # the nonce of the Challenge that this answers
    proof: bytes = b""  # see ``handshake``
    group: str = ""  # of a client: with whom it shares the workers; empty: the group of its user
    weight: float = 0.0  # of a client within its group; 0: 1
    user: str = ""  # of a client: the login name of its process; this and the next one are for people, and unproven
    program: str = ""  # of a client: what it runs


@value(frozen=True, slots=True)
class Challenge:
    """Answers the Hello with the same number when that has a nonce: the peer says the Hello again, with its proof.
    Unnumbered."""

    nonce: bytes
    number: int = 0


@value(frozen=True, slots=True)
class Welcome:
    """Answers the Hello with the same number; a peer ignores a Welcome to an earlier one (both sides would count
    different links). ``resumed``: the link goes on where it was, both sides send again what the other has not
    received; otherwise both start at sequence 1 and state is rebuilt."""

    session: bytes  # the scheduler's
    epoch: int
    received: int = 0
    resumed: bool = False
    protected: bool = True
    major: int = PROTOCOL_MAJOR
    minor: int = PROTOCOL_MINOR
    distribution_version: str = ""
    python_version: str = ""
    features: tuple[str, ...] = ()
    number: int = 0
    cluster: bytes = b""  # 16 bytes by which a host's object store is found; empty: there is none
    proof: bytes = b""  # see ``handshake``


@value(frozen=True, slots=True)
class Refused:
    reason: RefusalReason
    text: str  # one sentence that says what to do


@value(frozen=True, slots=True)
class WhoAreYou:
    """The scheduler got a message from a connection that has not said Hello: say it now. Unnumbered."""


# ---- the hot path ----------------------------------------------------------------------------------------------


@value(frozen=True, slots=True)
class Acknowledgement:
    """Nothing but the envelope's ``acknowledged``. Unnumbered."""


# ---- everything else -------------------------------------------------------------------------------------------


@value(frozen=True, slots=True)
class TaskColumn:
    """Tasks of one session. ``tasks`` and ``attempts`` are parallel; ``attempts`` empty means the current one."""

    session: bytes
    tasks: tuple[int, ...]
    attempts: tuple[int, ...] = ()


@value(frozen=True, slots=True)
class Cancel:
    """Client to scheduler, scheduler to agent. An agent answers each with a result of status CANCELLED unless the task
    ended otherwise first. For a graph task that succeeded there it means that the value is not needed any more (with
    attempt 0 also a value that was fetched); that is not answered. Scheduler to client: an operator cancels these
    tasks of the client, which end with results as always; ``reason`` is a sentence that says who does."""

    columns: tuple[TaskColumn, ...]
    unstarted_only: bool = False  # cancel tasks that have not started; CancelRefused names the others, which continue
    reason: str = ""  # for a client


@value(frozen=True, slots=True)
class ActorsReady:
    """Agent to scheduler: these actors have been made, and take calls. Each is named by the task that made it. After a
    restart of the scheduler they are named again, behind AgentAttach."""

    columns: tuple[TaskColumn, ...]


@value(frozen=True, slots=True)
class CancelRefused:
    """Agent to scheduler, scheduler to client: these tasks of a Cancel with ``unstarted_only`` were not cancelled,
    because they have started or are not here. A task that is cancelled ends with a result, as with every Cancel."""

    columns: tuple[TaskColumn, ...]
    moved: bool = False  # scheduler to client: the tasks left the agent that was asked; the client may ask again


@value(frozen=True, slots=True)
class Clear:
    """A client cancels all its tasks and drops all its objects."""


@value(frozen=True, slots=True)
class Withdraw:
    """Scheduler to agent: give back up to ``count`` tasks that never started, lowest priority and newest first."""

    count: int


@value(frozen=True, slots=True)
class Withdrawn:
    """Agent to scheduler, answering each Withdraw: the tasks given back; they were not and will not be started here.
    May be empty. Also sent unasked for tasks that an agent cannot start (its lease ran out, it is leaving)."""

    columns: tuple[TaskColumn, ...]
    leaving: bool = False  # the agent is ending: it takes no more tasks


@value(frozen=True, slots=True)
class ResultsReleased:
    """Scheduler to agent: the Results messages with these link sequences were received by their clients."""

    sequences: tuple[int, ...]


@value(frozen=True, slots=True)
class AgentAttach:
    """First numbered message of an agent on a fresh (not resumed) link: what it is and what it still holds. Results
    not yet released follow as ordinary Results."""

    name: str
    host: str
    pid: int
    worker_names: tuple[str, ...]  # one per slot
    capabilities: tuple[Capability, ...] = ()
    holds: tuple[TaskColumn, ...] = ()  # queued or running here, with attempts
    manager: str = ""  # the worker manager that started it


@value(frozen=True, slots=True)
class ManagerReport:
    """Worker manager to scheduler, once a second, on a session of the role ``WORK`` that never attaches: what it runs
    and what it can start. ``target_seconds``: how soon waiting tasks shall be done; ``cool_down_seconds``: how long
    workers remain that are not needed; ``reasons``: sentences, why fewer workers run than are needed. ``maximum`` 0: it
    keeps a number of workers that the scheduler does not decide."""

    name: str
    capabilities: tuple[Capability, ...]  # of each worker
    minimum: int  # workers
    maximum: int
    cost_per_worker_hour: float
    target_seconds: float
    cool_down_seconds: float
    starting: int = 0  # workers
    running: int = 0
    reasons: tuple[str, ...] = ()


@value(frozen=True, slots=True)
class ManagerOrder:
    """Scheduler to worker manager: run this many workers."""

    workers: int


@value(frozen=True, slots=True)
class WorkerStatus:
    """The slot of one worker process, for monitors."""

    name: str
    pid: int
    cpu_percent: float
    rss_bytes: int
    initialized: bool
    has_task: bool
    slot_lent: bool


@value(frozen=True, slots=True)
class RunningTask:
    """A task that a worker process has run for a second or longer, for monitors. Times are on the clock of
    ``Heartbeat.sent_at``."""

    session: bytes
    task: int
    attempt: int
    worker: int  # its index; beyond the workers: a process for nested tasks
    pid: int
    started_at: float
    active_at: float  # when its process was last seen to use processor time
    cpu_percent: float
    rss_bytes: int
    blocked: bool  # it waits for tasks of its own, or for a lock


@value(frozen=True, slots=True)
class Heartbeat:
    """Agent to scheduler every ``heartbeat_interval_seconds``: a status report, not liveness. Unnumbered."""

    sent_at: float  # agent's monotonic clock, echoed
    lag_seconds: float
    cpu_percent: float
    rss_bytes: int
    rss_free_bytes: int
    queued: int
    workers: tuple[WorkerStatus, ...]
    running_tasks: tuple[RunningTask, ...] = ()
    memory_limit_bytes: int = 0  # what the host, or the control group of the agent, may use; 0: not known
    workers_unchanged: bool = False  # there are none here: they are as in the last report of this connection


WORKERS_UNCHANGED_SINCE_MINOR = 4
"""The first minor version of the protocol in which a ``Heartbeat`` may lack the rows of workers."""


@value(frozen=True, slots=True)
class HeartbeatEcho:
    """``watched``: monitors need the worker and the time of each result. Unnumbered."""

    sent_at: float  # 0: answers no heartbeat
    watched: bool = False


@value(frozen=True, slots=True)
class Ping:
    """Liveness, each way, whenever nothing else was sent for 0.4 s. The receiver only notes the time. Unnumbered."""


@value(frozen=True, slots=True)
class Blocked:
    """Agent to scheduler: the number of slots whose task is blocked and lent (nested tasks). Unnumbered is wrong
    here: it changes what may be sent, so it is numbered."""

    lent_slots: int
    deepest: int  # depth of the deepest blocked task; only deeper tasks may use lent slots
    any_depth: bool = False  # unless this is set: nothing runs there, and a task waits for a lock; or tasks that wait
    # for packages count as lent slots, as they use none
    lent_by_actors: int = 0  # how many of them are lent by actors, whose calls wait: the other actors keep their slots


@value(frozen=True, slots=True)
class Relay:
    """Between agent and scheduler: the frames of a nested client's session, in further message frames."""

    session: bytes
    frames: tuple[bytes, ...]


@value(frozen=True, slots=True)
class RelayClosed:
    """Agent to scheduler: the nested client's connection to the agent ended."""

    session: bytes


@value(frozen=True, slots=True)
class ObjectChunk:
    """A piece of an object, ``offset`` bytes from its start; ``size`` is the whole object's."""

    key: ObjectKey
    size: int
    offset: int
    data: bytes  # a payload frame


@value(frozen=True, slots=True)
class ObjectRequest:
    """Asks for an object from its start. The sender may send OBJECT_WINDOW_BYTES beyond the last credit. To a client:
    an agent that cannot reach the store where the client has put it needs it."""

    key: ObjectKey
    relayed: bool = False  # no store that has it can be reached from here: the bytes must come this way
    offset: int = 0  # between stores: where to begin
    direct: bool = False  # from a client: its host's store can fetch it from another
    waits: bool = False  # from an agent: it waits for a result that is being made again


@value(frozen=True, slots=True)
class ObjectCredit:
    """The receiver has consumed the object up to ``offset``; the sender may send up to offset + window. A receiver
    that wants no more sends offset 2**64 - 1."""

    key: ObjectKey
    offset: int


@value(frozen=True, slots=True)
class ObjectMissing:
    key: ObjectKey
    text: str
    is_made_again: bool = False  # scheduler to agent: who ``waits`` for it may request it again


@value(frozen=True, slots=True)
class ObjectRelease:
    """The sender no longer needs these objects (a client: the result was fetched or its future is gone; the
    scheduler to an agent: free them)."""

    keys: tuple[ObjectKey, ...]
    client: bytes = b""  # scheduler to agent: this session has ended: drop all that is left of it, in the store too


@value(frozen=True, slots=True)
class ObjectStored:
    """Client or agent to scheduler: an object is in a store, where the agents of that store's host find it. Client to a
    store: it can push the object there, which the store requests if it needs it."""

    key: ObjectKey
    size: int
    store: bytes  # 16 bytes; from a client also empty: it keeps the object itself


@value(frozen=True, slots=True)
class ObjectsStored:
    """Client to scheduler: objects of one owner are in a store, as by ObjectStored. Not before
    ``OBJECTS_STORED_SINCE_MINOR``."""

    owner: bytes
    numbers: tuple[int, ...]
    sizes: tuple[int, ...]
    store: bytes


OBJECTS_STORED_SINCE_MINOR = 4
COPIES_SINCE_MINOR = 4
"""Schedulers that take in which agents have copies of results, with ObjectStored."""


@value(frozen=True, slots=True)
class ObjectLocations:
    """Answers the ObjectRequest of an agent, or of a client that can have an object fetched: stores that have it. An
    agent has its own store fetch it, and says ObjectStored, or asks again for it to be ``relayed``; so does a client,
    which says ObjectRelease, or asks again. To the client that keeps an object itself: the stores to push it to."""

    key: ObjectKey
    size: int
    sources: tuple[str, ...]  # endpoints, the one to ask first first; OWNER_SOURCE: the owner pushes it


ACTOR_NAME_PREFIX = "scaler.actor/"
"""The beginning of the names of the lock and the variable that make the name of an actor."""

OWNER_SOURCE = "owner"
"""The value that replaces an endpoint if the owner of the object connects to the store that needs it."""


@value(frozen=True, slots=True)
class ObjectsLost:
    """Client or agent to scheduler: these are not in its store any more."""

    keys: tuple[ObjectKey, ...]


@value(frozen=True, slots=True)
class StoreAttached:
    """Agent to scheduler: the store of its host. Another one than before: that has died, and with it all it held."""

    store: bytes
    endpoint: str = ""  # where it serves other stores; empty: nowhere


@value(frozen=True, slots=True)
class ExplainRequest:
    task: int


@value(frozen=True, slots=True)
class Explanation:
    task: int
    text: str


@value(frozen=True, slots=True)
class ClusterInfoRequest:
    """A client asks what monitors are told."""


@value(frozen=True, slots=True)
class ClusterInfoReply:
    """The answer: a snapshot in the monitor's encoding, compressed with zlib. Empty: it is too large for a message."""

    snapshot: bytes


@value(frozen=True, slots=True)
class Output:
    """The output of a task to stdout (1) or stderr (2), for a client that requested it, or ``warnings`` that it issued:
    the pickle of a list of (pickled category, message, file, line, module)."""

    session: bytes
    task: int
    stream: int
    data: bytes
    warnings: bytes = b""


@value(frozen=True, slots=True)
class ShutdownRequest:
    """A client asks scheduler and workers to stop."""


@value(frozen=True, slots=True)
class ShutdownReply:
    accepted: bool
    text: str = ""


@value(frozen=True, slots=True)
class Stop:
    """Scheduler to agent: end, the cluster is being shut down."""


@value(frozen=True, slots=True)
class Goodbye:
    """The peer leaves on purpose. From a client: its tasks are cancelled, its objects dropped. From an agent: it has
    withdrawn or finished all it held."""


# ---- control -----------------------------------------------------------------------------------------------------


CONTROL_SINCE_MINOR = 4
"""The first minor version of the protocol in which clients can control the cluster, and agents can be drained."""


class ControlAction(enum.IntEnum):
    """The actions of a client on agents and on tasks of other clients."""

    PAUSE = 0  # give an agent no more tasks
    RESUME = 1
    DRAIN = 2  # have it leave when its running tasks have ended
    CANCEL_CLIENT = 3  # cancel all tasks of a client
    CANCEL_FUNCTION = 4  # cancel all tasks of the functions with a name
    CANCEL_TASK = 5
    CANCEL_GRAPH = 6  # cancel all tasks of a graph
    KILL_WORKER = 7  # kill a worker process; another takes its place
    RESTART_WORKER = 8  # replace a worker process when its task has ended
    SET_CLIENT_WEIGHT = 9  # within its group
    SET_GROUP_WEIGHT = 10
    SET_GROUP_LIMIT = 11  # how many workers a group uses at most; 0: any number
    SET_CLIENT_PRIORITY = 12  # of the tasks of a client that have not been assigned
    SET_FUNCTION_PRIORITY = 13  # the same of the functions with a name


@value(frozen=True, slots=True)
class ControlRequest:
    """Client to scheduler. Each is answered by a ControlReply with its number. ``target``: the name of an agent, of one
    of its workers, or its host; the beginning of a client's id in hexadecimal, followed by a slash and the number of a
    task or graph if the action is about one; the name of a function or a group. ``value``: what is set."""

    number: int
    action: ControlAction
    target: str
    value: float = 0.0


@value(frozen=True, slots=True)
class ControlReply:
    """``text``: why it was refused, in a sentence."""

    number: int
    accepted: bool
    text: str = ""
    names: tuple[str, ...] = ()  # of the agents
    count: int = 0  # of the tasks concerned


@value(frozen=True, slots=True)
class EndProcess:
    """Scheduler to agent: replace the worker process of this worker, at once or when its task has ended."""

    worker: str
    at_once: bool


@value(frozen=True, slots=True)
class ProfileRequest:
    """Client to scheduler, and scheduler to agents: begin to sample where tasks are, or end that (``interval_us`` 0).
    The beginning and the end have the same number, and the client gets answers with it. ``session``: the client whose
    tasks are profiled; zero: all."""

    number: int
    session: bytes
    interval_us: int


@value(frozen=True, slots=True)
class ProfileReply:
    """Agent to scheduler, and scheduler to client. ``profile``: see ``scaler_protocol.profile``; empty: none, or the
    profile has begun. ``remaining``: how many further answers come. ``text``: why it was refused, in a sentence."""

    number: int
    accepted: bool
    text: str = ""
    remaining: int = 0
    profile: bytes = b""


@value(frozen=True, slots=True)
class StackRequest:
    """Client to scheduler, and scheduler to agent: where is the execution of this task now? Each is answered by a
    StackReply with its number. ``session`` is zero from a client, which asks for its own task. ``worker``: the name of
    a worker in place of a task; an operator may ask for it."""

    number: int
    session: bytes
    task: int
    worker: str = ""


@value(frozen=True, slots=True)
class StackReply:
    """``text``: the threads and their frames as Python prints them, or why there are none."""

    number: int
    is_found: bool
    text: str


SOFTWARE_SINCE_MINOR = 4
"""The first minor version of the protocol that has ``HostSoftware``."""


@value(frozen=True, slots=True)
class HostSoftware:
    """Agent to scheduler: what its worker processes run with. Scheduler to client: the same of a host whose software no
    earlier message has named. ``python_version``: 3.12.1. ``machine``: x86_64-v3, or as the system calls it.
    ``packages``: those whose values often travel, as ``numpy 2.1.0``."""

    host: str
    python_version: str
    machine: str
    packages: tuple[str, ...] = ()


@value(frozen=True, slots=True)
class OutputRequest:
    """Client to scheduler, and scheduler to agents: what has this task printed? Each is answered by an OutputReply with
    its number. ``session`` is zero from a client, which asks for its own task; an operator may ask for a task by the
    session that monitors show, or for a ``worker`` by its name."""

    number: int
    session: bytes
    task: int
    worker: str = ""


@value(frozen=True, slots=True)
class OutputPiece:
    """Whole lines of one stream (1: stdout, 2: stderr), or the end of a line. With a ``session`` of zeros, the worker
    process has printed them outside of tasks. ``place``: of the worker, its index, or NO_WORKER. ``left_out``: bytes
    that are missing before these."""

    session: bytes
    task: int
    attempt: int
    place: int
    stream: int
    left_out: int
    function: str
    worker: str
    data: bytes


@value(frozen=True, slots=True)
class OutputReply:
    """``pieces`` in the order in which they were printed; none if nothing was printed or nothing is kept. ``text``: why
    the request was refused."""

    number: int
    is_found: bool
    text: str = ""
    pieces: tuple[OutputPiece, ...] = ()


@value(frozen=True, slots=True)
class PrintedOutput:
    """Agent to scheduler, while it is watched: what tasks have printed, for monitors. Some may be left out."""

    pieces: tuple[OutputPiece, ...]


LOG_LINES_SINCE_MINOR = 4
"""The first minor version of the protocol in which agents and worker managers send lines of their logs."""


@value(frozen=True, slots=True)
class LogLine:
    """``number`` counts the lines of one log: those that are missing were left out. ``time``: seconds since 1970, by
    the clock of its host. ``level``: as in Python's logging."""

    number: int
    time: float
    level: int
    text: str


@value(frozen=True, slots=True)
class LogLines:
    """Agent or worker manager to scheduler: new lines of its log, for monitors. If the scheduler knows nothing of the
    sender, the newest lines that it has kept are sent. Store to agent: new lines of the store's log."""

    lines: tuple[LogLine, ...]


UNSENT_CALLS_SINCE_MINOR = 4
"""The first minor version of the protocol in which clients count the calls that have not left them."""

UNSENT_FUNCTIONS_LIMIT = 200
"""Functions whose calls are counted, those with the most."""


@value(frozen=True, slots=True)
class UnsentCount:
    """So many calls of a function."""

    digest: bytes
    name: str
    count: int
    module: str = ""  # in which the function is defined, for people; empty: not known


@value(frozen=True, slots=True)
class UnsentCalls:
    """Client to scheduler, for monitors: its calls that wait in the client for results of other tasks, in place of what
    it said before. It says so a few times a second at most."""

    counts: tuple[UnsentCount, ...]


STARTING_AGENTS_SINCE_MINOR = 4
"""The first minor version of the protocol that has ``StartingAgents``, ``AllReported`` and ``DroppedTasks``."""

STARTING_AGENTS_LIMIT = 16_384
"""The most agents that a client may name in all."""


@value(frozen=True, slots=True)
class StartingAgents:
    """Scheduler to client: agents that may start its tasks with ``rerun=False``, before they get the first one, and
    those that are gone: how each task that they had has ended was said before. Client to a scheduler of another epoch,
    before the tasks that it submits again: the agents that may have started some of them. Each is the 16 bytes of a
    session; incomplete ones do not count."""

    sessions: bytes = b""
    gone: bytes = b""


@value(frozen=True, slots=True)
class AllReported:
    """Agent to scheduler, after AgentAttach: it has said everything that it has from before, results included."""


@value(frozen=True, slots=True)
class DroppedTasks:
    """Scheduler to agent: these tasks of a client were dropped while it was away, and may have started. Agent to a
    scheduler of another epoch, before AllReported: what it has been told so. ``below``: all tasks below this number are
    meant, too."""

    session: bytes
    tasks: tuple[int, ...] = ()
    below: int = 0


@value(frozen=True, slots=True)
class Drain:
    """Scheduler to agent: return what has not started, and leave when the running tasks have ended."""


DEPARTURES_SINCE_MINOR = 4
"""The first minor version of the protocol in which values move to other agents when an agent leaves."""


@value(frozen=True, slots=True)
class Leaving:
    """Agent to scheduler: it leaves, and has values of tasks. The scheduler has other agents keep them, and then says
    MayLeave."""


@value(frozen=True, slots=True)
class KeepValues:
    """Scheduler to agent: fetch these values of tasks, as for a task that needs them, and keep them until they are
    released or their tasks are cancelled. It says ObjectStored for each that is there."""

    keys: tuple[ObjectKey, ...]


@value(frozen=True, slots=True)
class MayLeave:
    """Scheduler to agent, after Leaving: no value that could move is only there."""


# ---- coordination ----------------------------------------------------------------------------------------------


LOCKS_SINCE_MINOR = 2
"""The first minor version of the protocol that has locks."""

CANCEL_REASONS_SINCE_MINOR = 4
"""The first minor version of the protocol in which clients are told who cancels their tasks."""

UNSTARTED_ONLY_SINCE_MINOR = 3
"""The first minor version of the protocol that can cancel only what has not started."""

SEMAPHORES_SINCE_MINOR = 4
"""The first minor version of the protocol that has semaphores."""

LOCK_NAME_LIMIT_BYTES = 1024
"""The UTF-8 of a name that clients and tasks share."""

NAMED_VALUES_SINCE_MINOR = 4
"""The first minor version of the protocol that has ``NamedRequest``."""

SEMAPHORE_LIMIT = 2**32 - 1
"""The most holders that a semaphore may have."""


class CoordinationKind(enum.IntEnum):
    """Kinds of objects that clients and tasks share by name."""

    LOCK = 0
    SEMAPHORE = 1
    EVENT = 2
    VARIABLE = 3
    QUEUE = 4
    PUBLISHED = 5


class LockAction(enum.IntEnum):
    ACQUIRE = 0  # wait until it is free
    TRY = 1  # take it if it is free now
    RELEASE = 2  # end this request, whether it holds the lock or waits for it
    RESTATE = 3  # to a scheduler that has restarted: this request holds the lock
    ASK = 4  # is it held?


class LockState(enum.IntEnum):
    WAITING = 0
    GRANTED = 1
    DENIED = 2
    RELEASED = 3
    LOST = 4  # this request does not hold the lock any more, or never did
    REFUSED = 5
    FREE = 6
    HELD = 7


@value(frozen=True, slots=True)
class LockRequest:
    """Client to scheduler. Each request is answered by a LockReply; one that must wait is answered again when it is
    granted. The holder of a lock or a semaphore is a request: (session, number)."""

    kind: CoordinationKind
    action: LockAction
    number: int  # of the request within its session; numbers of ACQUIRE, TRY and RESTATE increase
    name: str = ""  # empty for RELEASE
    task_session: bytes = b""  # the execution of a task that asks: the request ends with it; empty: none
    task: int = 0
    attempt: int = 0
    limit: int = 0  # of a semaphore: how many requests may hold it at a time; 0 for locks and for RELEASE


@value(frozen=True, slots=True)
class LockReply:
    kind: CoordinationKind
    state: LockState
    number: int
    text: str = ""  # LOST and REFUSED: why, in a sentence


QUEUE_LIMIT = 2**32 - 1
"""The largest maximum size of a queue."""

NAMED_VALUE_LIMIT_BYTES = 256 * 1024
"""The most bytes of a value that is shared by name."""


class NamedAction(enum.IntEnum):
    SET = 0  # there is a value from now on
    CLEAR = 1  # there is none from now on
    READ = 2  # the value; wait until there is one
    PEEK = 3  # the value, if there is one now
    WITHDRAW = 4  # end the request of this number, which waits
    RESTATE = 5  # to a scheduler that has restarted: this session set the value
    RESTATE_CLEARED = 6  # to a scheduler that has restarted: this session cleared the value
    PUT = 7  # append an item to a queue; wait until there is room
    TRY_PUT = 8  # append an item, if there is room now
    TAKE = 9  # remove and return the first item; wait until there is one
    TRY_TAKE = 10  # remove and return the first item, if there is one now
    COUNT = 11  # the number of items
    RETURN = 12  # this item, which was taken, is the first one again
    TRY_SET = 13  # publish a value, if none of this name is published
    LIST = 14  # the names of all published values; the name of the request is ignored


class NamedState(enum.IntEnum):
    WAITING = 0
    DONE = 1
    ABSENT = 2  # nothing was done: there is no value, no item or no room, or for TRY_SET a value
    REFUSED = 3
    ENDED = 4  # this request does not wait any more; for RESTATE, the value has been replaced meanwhile


@value(frozen=True, slots=True)
class NamedRequest:
    """Client to scheduler. Each request is answered by a NamedReply; one that must wait is answered again when it is
    done. A number that was used before is not answered again."""

    kind: CoordinationKind
    named_action: NamedAction
    number: int  # of the request within its session; increases, except for WITHDRAW, RESTATE and RESTATE_CLEARED
    name: str = ""  # empty for WITHDRAW
    value: bytes = b""  # for SET, TRY_SET, RESTATE, PUT, TRY_PUT and RETURN
    version: int = 0  # for RESTATE and RESTATE_CLEARED: that of the reply
    task_session: bytes = b""  # the execution of a task that asks: a request that waits ends with it; empty: none
    task: int = 0
    attempt: int = 0
    limit: int = 0  # how many items a queue may have; 0: as many as there are


@value(frozen=True, slots=True)
class NamedReply:
    kind: CoordinationKind
    named_state: NamedState
    number: int
    text: str = ""  # REFUSED and ENDED: why, in a sentence
    value: bytes = b""  # for READ, PEEK, TAKE and TRY_TAKE; for LIST the names, in UTF-8, with zero bytes between them
    version: int = 0  # for SET, TRY_SET and CLEAR: increases with each change
    count: int = 0  # for COUNT; for CLEAR: how many values there were


# ---- a host's store and its peers ------------------------------------------------------------------------------


class StoreFailure(enum.IntEnum):
    """The reason why a store did not carry out a request."""

    FULL = 0  # memory or disk, for now
    TOO_LARGE = 1  # larger than all its memory
    UNREACHABLE = 2  # no store that has it answers


@value(frozen=True, slots=True)
class StoreSettings:
    """The settings that an agent sends to its store: how much it may hold, where it may spill, and the address of this
    host on which it serves the stores of other hosts. Zero or empty: as before. ``receives_log``: the store sends the
    lines of its log as LogLines, each line to one such agent."""

    memory_bytes: int
    spill_directory: str
    host: str
    receives_log: bool = False


@value(frozen=True, slots=True)
class StoreCreate:
    """Asks for room for an object; StoreGranted or StoreRefused answers."""

    key: ObjectKey
    size: int


@value(frozen=True, slots=True)
class StoreGranted:
    """Write the object there, then say StoreSeal. The descriptor of a segment comes with the first message that names
    it. ``fresh``: the pages are not reserved yet, which only writing by system call does safely. ``sealed``: the object
    exists already, there is nothing to write."""

    key: ObjectKey
    segment: int
    segment_size: int
    offset: int
    size: int
    fresh: bool = False
    sealed: bool = False


@value(frozen=True, slots=True)
class StoreRefused:
    key: ObjectKey
    failure: StoreFailure
    text: str  # one sentence that says what to do


@value(frozen=True, slots=True)
class StoreSeal:
    """The object is written: from now on it never changes, and others may have it."""

    key: ObjectKey


@value(frozen=True, slots=True)
class StoreAbandon:
    """The object that was to be written will not be."""

    key: ObjectKey


@value(frozen=True, slots=True)
class StoreReserve:
    """Asks for a region to place small objects in; what is left of the one before is given back."""

    size: int


@value(frozen=True, slots=True)
class StoreRegion:
    """``size`` 0: there is no room; create objects one by one."""

    segment: int
    segment_size: int
    offset: int
    size: int
    fresh: bool = False


@value(frozen=True, slots=True)
class StorePlace:
    """An object was written in the peer's region, at ``offset`` of its segment, and is sealed. Objects follow one
    another there, each from the start of a page. Not answered."""

    key: ObjectKey
    offset: int
    size: int


@value(frozen=True, slots=True)
class StorePlaceMany:
    """Objects of one owner were placed, as by StorePlace, the first at ``offset``. To stores with the feature
    ``placeMany``."""

    owner: bytes
    numbers: tuple[int, ...]
    offset: int
    sizes: tuple[int, ...]


@value(frozen=True, slots=True)
class StoreGet:
    """Asks for an object to map, once it is sealed: StoreExtent, ObjectMissing or StoreRefused answers."""

    key: ObjectKey


@value(frozen=True, slots=True)
class StoreExtent:
    """The bytes of an object. They stay where they are until the pin is released or its connection ends. ``copied``: so
    much is pinned that a peer that may keep this for long should copy it instead, and release the pin."""

    key: ObjectKey
    segment: int
    segment_size: int
    offset: int
    size: int
    pin: int
    copied: bool = False


@value(frozen=True, slots=True)
class StoreRelease:
    """These are no longer mapped."""

    pins: tuple[int, ...]


@value(frozen=True, slots=True)
class StoreFind:
    """Asks whether an object is here, once it is sealed: StoreFound or ObjectMissing answers."""

    key: ObjectKey


@value(frozen=True, slots=True)
class StoreFound:
    key: ObjectKey
    size: int


@value(frozen=True, slots=True)
class StoreDrop:
    """These objects are no longer needed."""

    keys: tuple[ObjectKey, ...]


@value(frozen=True, slots=True)
class StoreForget:
    """The objects of this owner are no longer needed, except those that it has sent and whose sender is connected."""

    owner: bytes


@value(frozen=True, slots=True)
class StoreFetch:
    """Asks a store to get an object from other stores: StoreFound or StoreRefused answers."""

    key: ObjectKey
    size: int
    sources: tuple[str, ...]  # endpoints, tried in this order


@value(frozen=True, slots=True)
class StoreStatusRequest:
    pass


@value(frozen=True, slots=True)
class ReceivedBytes:
    """The bytes that a store has received from another one since it started."""

    endpoint: str
    size_bytes: int


@value(frozen=True, slots=True)
class StoreStatus:
    """``used_bytes`` are of objects in memory, ``reserved_bytes`` of all memory the store holds; ``endpoint`` is where
    it serves other stores, empty: nowhere. ``disk_`` are of the file system of the spill directory, 0: not known. No
    object is larger than ``largest_bytes``, 0: not known."""

    store: bytes  # 16 bytes
    pid: int
    endpoint: str
    objects: int
    used_bytes: int
    reserved_bytes: int
    capacity_bytes: int
    pinned_bytes: int
    spilled_bytes: int
    sent_bytes: int
    received_bytes: int
    disk_free_bytes: int = 0
    disk_capacity_bytes: int = 0
    received_from: tuple[ReceivedBytes, ...] = ()  # the stores from which most has come, at most SOURCES_LIMIT
    largest_bytes: int = 0
    owners: bytes = b""  # sessions with objects in it, 16 bytes each, at most OWNERS_LIMIT of them, in turn


@value(frozen=True, slots=True)
class StoreSegmentClosed:
    """Nothing is in this segment any more: unmap and close it."""

    segment: int


Body = Union[
    Hello, Challenge, Welcome, Refused, WhoAreYou, Tasks, Results, Acknowledgement, Cancel, Clear, Withdraw, Withdrawn,
    ResultsReleased, AgentAttach, Heartbeat, HeartbeatEcho, Ping, Blocked, Relay, RelayClosed, ObjectChunk,
    ObjectRequest, ObjectCredit, ObjectMissing, ObjectRelease, ExplainRequest, Explanation, Output, ShutdownRequest,
    ShutdownReply, Stop, Goodbye, ObjectStored, ObjectLocations, ObjectsLost, StoreAttached,
    StoreSettings, StoreCreate, StoreGranted, StoreRefused, StoreSeal, StoreAbandon, StoreReserve, StoreRegion,
    StorePlace, StoreGet, StoreExtent, StoreRelease, StoreFind, StoreFound, StoreDrop, StoreForget, StoreFetch,
    StoreStatusRequest, StoreStatus, StoreSegmentClosed, ClusterInfoRequest, ClusterInfoReply,
    LockRequest, LockReply, CancelRefused, ControlRequest, ControlReply, Drain,
    NamedRequest, NamedReply, ManagerReport, ManagerOrder, ActorsReady, StackRequest,
    StackReply, HostSoftware, EndProcess, ProfileRequest, ProfileReply, OutputRequest, OutputReply,
    PrintedOutput, Leaving, KeepValues, MayLeave, LogLines, UnsentCalls, ObjectsStored, StorePlaceMany,
    StartingAgents, AllReported, DroppedTasks,
]  # fmt: skip

UNNUMBERED = (
    Hello,
    Challenge,
    Welcome,
    Refused,
    WhoAreYou,
    Acknowledgement,
    Heartbeat,
    HeartbeatEcho,
    Ping,
    ManagerReport,
    ManagerOrder,
    HostSoftware,
)
"""Bodies that travel with sequence 0: losing one loses nothing, receiving one twice does no harm."""
