"""One message of every body, with values other than the defaults in the fields of the first release, and full ones."""

from __future__ import annotations

import random
from array import array

from scaler_protocol import layout
from scaler_protocol.bodies import BODIES
from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import (
    Acknowledgement,
    ActorsReady,
    AgentAttach,
    AllReported,
    Blocked,
    Body,
    Cancel,
    CancelRefused,
    Capability,
    Challenge,
    Clear,
    ClusterInfoReply,
    ClusterInfoRequest,
    ControlAction,
    ControlReply,
    ControlRequest,
    CoordinationKind,
    Drain,
    DroppedTasks,
    EndProcess,
    Envelope,
    ExplainRequest,
    Explanation,
    FunctionDefinition,
    Goodbye,
    Heartbeat,
    HeartbeatEcho,
    Hello,
    HostSoftware,
    KeepValues,
    Leaving,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
    LogLine,
    LogLines,
    ManagerOrder,
    ManagerReport,
    MayLeave,
    NamedAction,
    NamedReply,
    NamedRequest,
    NamedState,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectsStored,
    ObjectStored,
    Output,
    OutputPiece,
    OutputReply,
    OutputRequest,
    Ping,
    PrintedOutput,
    ProfileReply,
    ProfileRequest,
    RefusalReason,
    Refused,
    Relay,
    RelayClosed,
    Results,
    ResultsReleased,
    Role,
    ShutdownReply,
    ShutdownRequest,
    StackReply,
    StackRequest,
    StartingAgents,
    Stop,
    StoreAbandon,
    StoreAttached,
    StoreCreate,
    StoreDrop,
    StoreExtent,
    StoreFailure,
    StoreFetch,
    StoreFind,
    StoreForget,
    StoreFound,
    StoreGet,
    StoreGranted,
    StorePlace,
    StorePlaceMany,
    StoreRefused,
    StoreRegion,
    StoreRelease,
    StoreReserve,
    StoreSeal,
    StoreSegmentClosed,
    StoreSettings,
    StoreStatus,
    StoreStatusRequest,
    TaskColumn,
    TaskOptions,
    Tasks,
    UnsentCalls,
    UnsentCount,
    Welcome,
    WhoAreYou,
    Withdraw,
    Withdrawn,
    WorkerStatus,
)
from tests.support.any_value import UsualValues, any_instance

SESSION = bytes(range(1, 17))
FUNCTION = b"function digest!"
SERIALIZER = b"serializer diges"
KEY = ObjectKey(b"owner of objects", 2**64 - 1)

OPTIONS = TaskOptions(
    priority=-3,
    depth=2,
    retries=4,
    rerun=False,
    timeout_seconds=1.5,
    memory_bytes=2**40,
    profiling=True,
    stream_output=True,
    capabilities=(Capability("gpu", 2), Capability("größe", 1)),
)
FULL_OPTIONS = any_instance(TaskOptions, UsualValues())
"""Options of which none has its default."""

COLUMNS = (TaskColumn(SESSION, (1, 2**63), (1, 2**32 - 1)), TaskColumn(FUNCTION, (7,)))


def plain_run(count: int = 5, first_task: int = 10, size: int = 8) -> TaskRun:
    tasks = [[bytes([index % 256]) * (size + index % 3)] for index in range(count)]
    return TaskRun(SESSION, FUNCTION, "module.function", b"", first_task, 1, (), TaskOptions(), tasks)


def rich_run() -> TaskRun:
    """Two slots, one of them a keyword; references, options, a serializer, an empty slot."""
    tasks: list[list[bytes | ObjectKey]] = [[b"", KEY], [b"abc", b"def"], [KEY, b"x" * 100], [b"1", b"2"]]
    return TaskRun(SESSION, FUNCTION, "módule.fünction", SERIALIZER, 2**40, 3, ("keyword",), OPTIONS, tasks)


def result_run(count: int = 5) -> ResultRun:
    rows = [(index * 3, 1 + index, index % 13, b"r" * index, 10 + index, 5 + index, index) for index in range(count)]
    return ResultRun(SESSION, rows)


def timed_runs() -> list[ResultRun]:
    """Runs that say when their tasks ended: tasks in a row, and others."""
    row = ResultRun(SESSION, [(100 + index, 1, 0, b"r", 300 * (index % 20 == 3), 5, 0) for index in range(40)])
    row.set_place(1, array("I", [1000 - index - 500 * (index > 30) for index in range(40)]).tobytes())
    others = result_run(3)
    others.set_place(2, array("I", [7, 2**32 - 1, 0]).tobytes())
    others.set_parts(array("I", [0, 1, 2, 3, 2, 2**32 - 1, 0, 7]).tobytes())
    return [row, others]


def function(name: str = "module.function", environment: str = "") -> FunctionDefinition:
    return FunctionDefinition(FUNCTION, name, b"the pickle", 10, environment)


OUTPUT_PIECE = OutputPiece(SESSION, 12, 2, 0xFFFF, 2, 2**40, "price", "vm-3-0", b"line\n\xff")


def all_bodies() -> list[Body]:
    return [
        Tasks([plain_run(), rich_run()], [function()], [function("module.Serializer")], True),
        Results([result_run(), result_run(2)]),
        Acknowledgement(),
        _hello(),
        Welcome(SESSION, 2**63 - 1, 7, True, False, 1, 2, "1.2.3", "3.11.7", ("feature",)),
        Refused(RefusalReason.TOKEN, "Run both as one user."),
        WhoAreYou(),
        Cancel(COLUMNS),
        Clear(),
        Withdraw(17),
        Withdrawn(COLUMNS),
        ResultsReleased((1, 2, 2**40)),
        AgentAttach("name", "host", 123, ("a", "b"), (Capability("linux", 1),), COLUMNS),
        Heartbeat(1.5, 0.25, 99.5, 2**31, 2**33, 12, (WorkerStatus("w", 1, 0.5, 2**30, True, True, True),)),
        HeartbeatEcho(1.5),
        Ping(),
        Blocked(3, 2),
        Relay(SESSION, (b"frame", b"", b"another")),
        RelayClosed(SESSION),
        ObjectChunk(KEY, 2**32, 2**31, b"some data"),
        ObjectRequest(KEY),
        ObjectCredit(KEY, 2**64 - 1),
        ObjectMissing(KEY, "It is gone."),
        ObjectRelease((KEY, KEY)),
        ExplainRequest(5),
        Explanation(5, "It waits for a worker."),
        Output(SESSION, 5, 2, b"to stderr"),
        ShutdownRequest(),
        ShutdownReply(True, "Good night."),
        Stop(),
        Goodbye(),
        ObjectStored(KEY, 2**32, FUNCTION),
        ObjectLocations(KEY, 2**32, ("tcp://10.0.0.1:1234", "tcp://10.0.0.2:1234")),
        ObjectsLost((KEY, KEY)),
        StoreAttached(FUNCTION, "tcp://10.0.0.1:1234"),
        StoreSettings(2**34, "/var/tmp", "10.0.0.1"),
        StoreCreate(KEY, 2**33),
        StoreGranted(KEY, 3, 2**26, 2**12, 2**20, True, True),
        StoreRefused(KEY, StoreFailure.TOO_LARGE, "Raise --object-store-memory."),
        StoreSeal(KEY),
        StoreAbandon(KEY),
        StoreReserve(2**22),
        StoreRegion(3, 2**26, 2**12, 2**22, True),
        StorePlace(KEY, 2**12, 2**15),
        StoreGet(KEY),
        StoreExtent(KEY, 3, 2**26, 2**12, 2**20, 2**40),
        StoreRelease((1, 2**40)),
        StoreFind(KEY),
        StoreFound(KEY, 2**33),
        StoreDrop((KEY, KEY)),
        StoreForget(SESSION),
        StoreFetch(KEY, 2**33, ("tcp://10.0.0.1:1234", "tcp://10.0.0.2:1234")),
        StoreStatusRequest(),
        StoreStatus(FUNCTION, 123, "tcp://10.0.0.1:1234", 5, 2**30, 2**31, 2**34, 2**20, 2**32, 2**33, 2**35),
        StoreSegmentClosed(3),
        ClusterInfoRequest(),
        ClusterInfoReply(b"compressed"),
        Challenge(b"n" * 32, 4),
        LockRequest(CoordinationKind.LOCK, LockAction.ACQUIRE, 2**40, "größe", SESSION, 2**33, 2**32 - 1),
        LockReply(CoordinationKind.LOCK, LockState.LOST, 2**40, "Its task has ended."),
        CancelRefused(COLUMNS, True),
        ControlRequest(7, ControlAction.DRAIN, "vm-3"),
        ControlReply(7, True, "", ("vm-3",), 5),
        Drain(),
        NamedRequest(
            CoordinationKind.QUEUE, NamedAction.PUT, 2**40, "größe", b"value", 2**62, SESSION, 2**33, 2**32 - 1, 2**31
        ),
        NamedReply(CoordinationKind.QUEUE, NamedState.ENDED, 2**40, "Its task has ended.", b"value", 2**62, 2**31),
        ManagerReport("cloud", (Capability("gpu", 1),), 1, 2**32 - 1, 0.25, 60.0, 120.0, 3, 4, ("Quota.",)),
        ManagerOrder(2**32 - 1),
        ActorsReady(COLUMNS),
        StackRequest(7, SESSION, 12, "vm-3-0"),
        StackReply(7, True, "Thread 0x1 (most recent call first):"),
        HostSoftware("vm-3", "3.12.1", "x86_64-v3", ("numpy 2.1.0", "größe 1")),
        EndProcess("vm-3-0", True),
        ProfileRequest(7, SESSION, 20_000),
        ProfileReply(7, True, "", 3, b"compressed"),
        OutputRequest(7, SESSION, 12, "vm-3-0"),
        OutputReply(7, False, "Cannot show the output.", (OUTPUT_PIECE,)),
        PrintedOutput((OUTPUT_PIECE, OUTPUT_PIECE)),
        Leaving(),
        KeepValues((KEY, ObjectKey(SESSION, 1))),
        MayLeave(),
        LogLines((LogLine(7, 1700000000.5, 30, "worker process 12 died: SIGKILL"),)),
        UnsentCalls((UnsentCount(FUNCTION, "größe", 2**32 - 1, "modul"),)),
        ObjectsStored(SESSION, (2**64 - 1, 2**64 - 2), (2**15, 2**32), FUNCTION),
        StorePlaceMany(SESSION, (2**64 - 1, 2**64 - 2), 2**12, (2**15, 2**16)),
        StartingAgents(SESSION + FUNCTION, b"g" * 16),
        AllReported(),
        DroppedTasks(SESSION, (0, 2**64 - 1), 2**63),
    ]


def _hello() -> Hello:
    return Hello(
        role=Role.WORK,
        session=SESSION,
        epoch=2**63 - 1,
        received=7,
        major=1,
        minor=2,
        distribution="scaler-worker",
        distribution_version="1.2.3",
        python_version="3.11.7",
        host="host",
        pid=123,
        token=b"token",
        features=("one", "two"),
        parent_session=FUNCTION,
        parent_task=9,
        parent_attempt=2,
    )


def name_of(body: Body) -> str:
    """The name of its field in the schema's union, which no release changes, in the case of a class."""
    field = layout.bodies()[BODIES.index(type(body))]
    return field[0].upper() + field[1:]


def full_bodies() -> list[Body]:
    """Bodies in which every field has a value, also those that older versions do not have."""
    kinds = [type(body) for body in all_bodies() if not isinstance(body, (Tasks, Results, ObjectChunk))]
    return [any_instance(kind, UsualValues()) for kind in kinds]


def all_envelopes() -> list[Envelope]:
    return [Envelope(body, 5, 6) for body in all_bodies()]


def random_run(chance: random.Random) -> TaskRun:
    arity = chance.randrange(4)
    keywords = tuple(f"keyword{index}" for index in range(chance.randrange(arity + 1)))
    tasks = [[_random_slot(chance) for _ in range(arity)] for _ in range(1 + chance.randrange(20))]
    options = chance.choice([TaskOptions(), OPTIONS, FULL_OPTIONS, TaskOptions(depth=chance.randrange(5))])
    serializer = chance.choice([b"", SERIALIZER])
    return TaskRun(
        SESSION, FUNCTION, "f" * chance.randrange(20), serializer, chance.randrange(2**40), 1, keywords, options, tasks
    )


def _random_slot(chance: random.Random) -> bytes | ObjectKey:
    if chance.random() < 0.1:
        return ObjectKey(chance.randbytes(16), chance.randrange(2**64))
    return chance.randbytes(chance.randrange(50))


def random_results(chance: random.Random) -> ResultRun:
    return ResultRun(
        SESSION,
        [
            (
                chance.randrange(2**63),
                chance.randrange(2**32),
                chance.randrange(13),
                chance.randbytes(chance.randrange(40)),
                chance.randrange(2**64),
                chance.randrange(2**64),
                chance.choice([0, chance.randrange(2**64)]),
            )
            for _ in range(chance.randrange(20))
        ],
    )
