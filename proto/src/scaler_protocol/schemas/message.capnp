@0xd2f6a1c9be84e371;
# The first frame of every message is one Message in Cap'n Proto's stream framing; what else a body carries is in the
# frames after it. Changed by addition only.
#
# Columns are packed little-endian integers in Data: a u32 column of n entries has 4 * n bytes. An "ends" column holds,
# for each piece in turn, where it ends, counted from the start of its run's bytes in the payload frame; a piece starts
# where the one before it ends, the first at 0.

struct Message {
  sequence @0 :UInt64;      # 0: unnumbered
  acknowledged @1 :UInt64;  # highest sequence received from the other side
  union {
    tasks @2 :Tasks;
    results @3 :Results;
    acknowledgement @4 :Void;
    hello @5 :Hello;
    welcome @6 :Welcome;
    refused @7 :Refused;
    whoAreYou @8 :Void;
    cancel @9 :Cancel;
    clear @10 :Void;
    withdraw @11 :Withdraw;
    withdrawn @12 :Withdrawn;
    resultsReleased @13 :ResultsReleased;
    agentAttach @14 :AgentAttach;
    heartbeat @15 :Heartbeat;
    heartbeatEcho @16 :HeartbeatEcho;
    ping @17 :Void;
    blocked @18 :Blocked;
    relay @19 :Relay;
    relayClosed @20 :RelayClosed;
    objectChunk @21 :ObjectChunk;
    objectRequest @22 :ObjectRequest;
    objectCredit @23 :ObjectCredit;
    objectMissing @24 :ObjectMissing;
    objectRelease @25 :ObjectRelease;
    explainRequest @26 :ExplainRequest;
    explanation @27 :Explanation;
    output @28 :Output;
    shutdownRequest @29 :Void;
    shutdownReply @30 :ShutdownReply;
    stop @31 :Void;
    goodbye @32 :Void;
    objectStored @33 :ObjectStored;
    objectLocations @34 :ObjectLocations;
    objectsLost @35 :ObjectsLost;
    storeAttached @36 :StoreAttached;
    # from here on: between a host's store and its peers
    storeSettings @37 :StoreSettings;
    storeCreate @38 :StoreCreate;
    storeGranted @39 :StoreGranted;
    storeRefused @40 :StoreRefused;
    storeSeal @41 :StoreSeal;
    storeAbandon @42 :StoreAbandon;
    storeReserve @43 :StoreReserve;
    storeRegion @44 :StoreRegion;
    storePlace @45 :StorePlace;
    storeGet @46 :StoreGet;
    storeExtent @47 :StoreExtent;
    storeRelease @48 :StoreRelease;
    storeFind @49 :StoreFind;
    storeFound @50 :StoreFound;
    storeDrop @51 :StoreDrop;
    storeForget @52 :StoreForget;
    storeFetch @53 :StoreFetch;
    storeStatusRequest @54 :Void;
    storeStatus @55 :StoreStatus;
    storeSegmentClosed @56 :StoreSegmentClosed;
    # again between clients and scheduler
    clusterInfoRequest @57 :Void;
    clusterInfo @58 :ClusterInfoReply;
    challenge @59 :Challenge;  # answers a hello with a nonce
    lockRequest @60 :LockRequest;
    lockReply @61 :LockReply;
    cancelRefused @62 :CancelRefused;
    controlRequest @63 :ControlRequest;
    controlReply @64 :ControlReply;
    drain @65 :Void;
    namedRequest @66 :NamedRequest;
    namedReply @67 :NamedReply;
    managerReport @68 :ManagerReport;
    managerOrder @69 :ManagerOrder;
    actorsReady @70 :ActorsReady;
    stackRequest @71 :StackRequest;
    stackReply @72 :StackReply;
    hostSoftware @73 :HostSoftware;
    endProcess @74 :EndProcess;
    profileRequest @75 :ProfileRequest;
    profileReply @76 :ProfileReply;
    outputRequest @77 :OutputRequest;
    outputReply @78 :OutputReply;
    printedOutput @79 :PrintedOutput;
    leaving @80 :Void;
    keepValues @81 :KeepValues;
    mayLeave @82 :Void;
    logLines @83 :LogLines;
    unsentCalls @84 :UnsentCalls;
    objectsStored @85 :ObjectsStored;
    storePlaceMany @86 :StorePlaceMany;
    startingAgents @87 :StartingAgents;
    allReported @88 :Void;  # an agent has said all that it has
    droppedTasks @89 :DroppedTasks;
  }
}

# ---- frozen ---------------------------------------------------------------------------------------------------------

enum Role {
  observe @0;
  submit @1;
  work @2;
  admin @3;
}

struct Hello {
  role @0 :UInt16;  # a Role
  session @1 :Data;
  epoch @2 :UInt64;
  received @3 :UInt64;
  major @4 :UInt16;
  minor @5 :UInt16;
  distribution @6 :Text;
  distributionVersion @7 :Text;
  pythonVersion @8 :Text;
  host @9 :Text;
  pid @10 :UInt64;
  token @11 :Data;  # unused since 1.2, always empty: a token is never sent
  features @12 :List(Text);
  parentSession @13 :Data;
  parentTask @14 :UInt64;
  parentAttempt @15 :UInt32;
  number @16 :UInt64;  # counts the Hellos of this session
  parentDepth @17 :UInt32;
  nonce @18 :Data;      # 32 bytes, fresh for each Hello; empty: no proof is asked for or given
  challenge @19 :Data;  # the nonce of the Challenge that this answers; empty: the first of two
  proof @20 :Data;      # that this peer knows the token
  group @21 :Text;      # of a client: with whom it shares the workers; empty: the group of its user
  weight @22 :Float64;  # of a client within its group; 0: 1
  user @23 :Text;       # of a client: the login name of its process, as it says; for people
  program @24 :Text;    # of a client: what it runs, as it says; for people
}

struct Challenge {
  nonce @0 :Data;
  number @1 :UInt64;  # of the Hello that this answers
}

struct Welcome {
  session @0 :Data;
  epoch @1 :UInt64;
  received @2 :UInt64;
  resumed @3 :Bool;
  protected @4 :Bool;
  major @5 :UInt16;
  minor @6 :UInt16;
  distributionVersion @7 :Text;
  pythonVersion @8 :Text;
  features @9 :List(Text);
  number @10 :UInt64;  # of the Hello that this answers
  cluster @11 :Data;   # by which the object store of a host is found; empty: there is none
  proof @12 :Data;     # that the scheduler knows the token, over all fields before this one
}

enum RefusalReason {
  version @0;
  token @1;
  role @2;
  malformed @3;
  session @4;
  other @5;
}

struct Refused {
  reason @0 :UInt16;  # a RefusalReason
  text @1 :Text;
}

# ---- the hot path: one payload frame, which holds the bytes of all runs ---------------------------------------------

struct Tasks {
  runs @0 :List(TaskRun);
  functions @1 :List(FunctionDefinition);
  serializers @2 :List(FunctionDefinition);
  resubmitted @3 :Bool;
  parent @4 :TaskName;  # the task that the nested client lives in from here on; null: as before
}

struct TaskName {
  # One execution of a task, and how deep it is nested.
  session @0 :Data;
  task @1 :UInt64;
  attempt @2 :UInt32;
  depth @3 :UInt32;
}

struct TaskRun {
  # Tasks firstTask .. firstTask + count - 1 of one session. Each has `arity` slots: its positional arguments, then one
  # per keyword. Slot s of task t is piece t * arity + s of the columns.
  session @0 :Data;
  function @1 :Data;      # digest
  functionName @2 :Text;
  serializer @3 :Data;    # digest; empty: the default
  firstTask @4 :UInt64;
  count @5 :UInt32;
  attempt @6 :UInt32;
  arity @7 :UInt32;
  keywords @8 :List(Text);
  options @9 :TaskOptions;  # null: all defaults
  ends @10 :Data;           # u32 column
  references @11 :Data;     # empty: no references; else u8 column, 1: the piece is an object key, 24 bytes: owner (16), number (u64)
  payloadOffset @12 :UInt64;  # of this run's bytes in the payload frame
  payloadSize @13 :UInt64;
}

struct TaskOptions {
  priority @0 :Int64;
  depth @1 :UInt32;
  retries @2 :UInt32;
  timeoutSeconds @3 :Float64;  # 0: none
  memoryBytes @4 :UInt64;      # 0: none
  startOnce @5 :Bool;          # a started task is never started again
  profiling @6 :Bool;
  streamOutput @7 :Bool;
  capabilities @8 :List(Capability);
  intermediate @9 :Bool;  # the result is for tasks of its graph, not for the client (to whom a failure still goes)
  graph @10 :UInt32;      # number of the graph inside its session; 0: none
  sharesValues @11 :Bool; # it changes none of its arguments, so that these may be the very objects that others made
  grows @12 :Bool;        # of a graph: later tasks name none whose result the client has released
  hostsActor @13 :Bool;   # the task makes an actor, and ends when the actor ends
  actor @14 :UInt64;      # a call of the actor that this task of the session has made; 0: none
  actorSession @15 :UInt64;       # the session of that task, as two little-endian numbers; 0, 0: that of the call
  actorSessionHigh @16 :UInt64;
  maxConcurrency @17 :UInt16;     # with hostsActor: so many calls of the actor run at the same time; 0: one
  mapNumber @18 :UInt32;          # of the map that the tasks belong to, inside their session; 0: none
  submittedAt @19 :Float64;       # for spans: seconds since 1970, by the client's clock; 0: there are none
  readyAt @20 :Float64;           # by the same clock, of a node that has submittedAt, to its agent: when its inputs were
                                  # there; 0: they are not, as far as the scheduler knows
  mapTasks @21 :UInt32;           # with mapNumber: how many tasks the map will have when all have come; 0: those that have
                                  # come so far are all; 4294967295: not known
  actorName @22 :Text;            # with hostsActor: the name that get_actor finds, for monitors; empty: none
}

struct Capability {
  name @0 :Text;
  amount @1 :UInt64;
  millionths @2 :UInt32;  # in addition to the amount: part of a device
}

struct FunctionDefinition {
  digest @0 :Data;
  name @1 :Text;
  payload @2 :Data;
  size @3 :UInt64;
  environment @4 :Text;   # of a serializer: where the tasks run that name it, as JSON; empty: in that of the worker
  module @5 :Text;        # in which the function is defined, for people; empty: not known
}

enum Status {
  success @0;
  successLarge @1;
  exception @2;
  exceptionNotSerializable @3;
  cancelled @4;
  processorDied @5;
  timedOut @6;
  memoryExceeded @7;
  deserializeFailed @8;
  workerDied @9;
  objectMissing @10;
  noWorker @11;
  notFound @12;
}

struct Results {
  runs @0 :List(ResultRun);
}

struct ResultRun {
  # Results of tasks of one session, in the order they ended.
  session @0 :Data;
  count @1 :UInt32;
  tasks @2 :Data;        # u64 column
  attempts @3 :Data;     # u32 column
  statuses @4 :Data;     # u8 column of Status
  durations @5 :Data;    # u64 column, microseconds
  cpuTimes @6 :Data;     # u64 column, microseconds
  memoryPeaks @7 :Data;  # u64 column, bytes; empty: all 0
  ends @8 :Data;         # u32 column
  payloadOffset @9 :UInt64;  # of this run's bytes in the payload frame
  payloadSize @10 :UInt64;
  worker @11 :UInt16;    # 1 + the slot, at the agent, of the worker that made them; 0: unknown
  ages @12 :Data;        # u32 column, microseconds from the end of each execution until the run was made; empty: unknown
  steps @13 :Data;       # in place of ages, where the tasks follow one another and ended alike, in one attempt: durations
                         # and ends in about two bytes a task, as steps.pyi says
  parts @14 :Data;       # of the durations that were not only spent running: for each, ascending, u32 row and microseconds
                         # of fetching and loading arguments, and of storing the result
}

# ---- everything else ------------------------------------------------------------------------------------------------

struct TaskColumn {
  session @0 :Data;
  tasks @1 :Data;     # u64 column
  attempts @2 :Data;  # u32 column, or empty: the current ones
}

struct Cancel {
  columns @0 :List(TaskColumn);
  unstartedOnly @1 :Bool;  # cancel tasks that have not started; cancelRefused names the others, which continue
  reason @2 :Text;         # scheduler to client: who cancels these tasks of the client, in a sentence
}

struct CancelRefused {
  columns @0 :List(TaskColumn);
  moved @1 :Bool;  # scheduler to client: the tasks left the agent that was asked; the client may ask again
}

struct ActorsReady {
  # Agent to scheduler: these actors have been made, and take calls.
  columns @0 :List(TaskColumn);
}

struct StackRequest {
  # Client to scheduler, and scheduler to agent: where is the execution of this task, or of the task of this worker?
  number @0 :UInt64;
  session @1 :Data;   # zero from a client
  task @2 :UInt64;
  worker @3 :Text;
}

struct StackReply {
  number @0 :UInt64;
  isFound @1 :Bool;
  text @2 :Text;
}

struct OutputRequest {
  # Client to scheduler, and scheduler to agents: what has this task, or this worker, printed?
  number @0 :UInt64;
  session @1 :Data;   # zero from a client that asks for a task of its own
  task @2 :UInt64;
  worker @3 :Text;
}

struct OutputReply {
  number @0 :UInt64;
  isFound @1 :Bool;
  text @2 :Text;      # why there is no output
  pieces @3 :List(OutputPiece);
}

struct PrintedOutput {
  # Agent to scheduler, while events are recorded: what tasks have printed, for monitors.
  pieces @0 :List(OutputPiece);
}

struct OutputPiece {
  session @0 :Data;   # zero: the worker process has printed it outside of tasks
  task @1 :UInt64;
  attempt @2 :UInt32;
  place @3 :UInt16;   # of the worker: its index, or 0xFFFF
  stream @4 :UInt8;   # 1: stdout, 2: stderr
  leftOut @5 :UInt64; # bytes that are missing before these
  function @6 :Text;
  worker @7 :Text;
  data @8 :Data;
}

struct LogLines {
  # Agent or worker manager to scheduler: new lines of its log, for monitors. Store to agent: of the store's log.
  lines @0 :List(LogLine);
}

struct LogLine {
  number @0 :UInt64;  # counts the lines of this log; missing ones were left out
  time @1 :Float64;   # seconds since 1970, by the clock of its host
  level @2 :UInt8;    # 10 debug, 20 info, 30 warning, 40 error, 50 critical
  text @3 :Text;
}

struct UnsentCalls {
  # Client to scheduler: its calls that wait in the client for results of other tasks. Replaces what it said before.
  counts @0 :List(UnsentCount);
}

struct StartingAgents {
  # Scheduler to client: the agents that may start its tasks with rerun=False from now on, and those that cannot have
  # started any unfinished one any more. Client to a scheduler that has restarted: those that may have started some.
  sessions @0 :Data;  # 16 bytes each
  gone @1 :Data;
}

struct DroppedTasks {
  # Scheduler to agent: tasks that were dropped because their client was away. They may have started. Agent to a
  # scheduler that has restarted, before allReported: what schedulers have told it so.
  session @0 :Data;   # of the client
  tasks @1 :Data;     # u64 column
  below @2 :UInt64;   # and all tasks below this number
}

struct UnsentCount {
  digest @0 :Data;    # of the function
  name @1 :Text;
  count @2 :UInt32;
  module @3 :Text;    # in which it is defined; empty: not known
}

struct Withdraw {
  count @0 :UInt32;
}

struct Withdrawn {
  columns @0 :List(TaskColumn);
  leaving @1 :Bool;  # the agent is ending: it takes no more tasks
}

struct ResultsReleased {
  sequences @0 :Data;  # u64 column
}

struct AgentAttach {
  name @0 :Text;
  host @1 :Text;
  pid @2 :UInt64;
  workerNames @3 :List(Text);
  capabilities @4 :List(Capability);
  holds @5 :List(TaskColumn);
  manager @6 :Text;  # since 1.4: the worker manager that started it; empty: none
}

struct HostSoftware {
  # Agent to scheduler: what its worker processes run with. Scheduler to client: the same of some host.
  host @0 :Text;
  pythonVersion @1 :Text;     # 3.12.1
  machine @2 :Text;           # x86_64-v3
  packages @3 :List(Text);    # numpy 2.1.0
}

struct ManagerReport {
  name @0 :Text;
  capabilities @1 :List(Capability);  # of each worker
  minimum @2 :UInt32;                 # workers
  maximum @3 :UInt32;
  costPerWorkerHour @4 :Float64;
  targetSeconds @5 :Float64;
  coolDownSeconds @6 :Float64;
  starting @7 :UInt32;                # workers
  running @8 :UInt32;
  reasons @9 :List(Text);             # why fewer run than are needed
}

struct ManagerOrder {
  workers @0 :UInt32;
}

struct WorkerStatus {
  name @0 :Text;
  pid @1 :UInt64;
  cpuPercent @2 :Float64;
  rssBytes @3 :UInt64;
  initialized @4 :Bool;
  hasTask @5 :Bool;
  slotLent @6 :Bool;
}

struct Heartbeat {
  sentAt @0 :Float64;
  lagSeconds @1 :Float64;
  cpuPercent @2 :Float64;
  rssBytes @3 :UInt64;
  rssFreeBytes @4 :UInt64;
  queued @5 :UInt64;
  workers @6 :List(WorkerStatus);
  runningTasks @7 :List(RunningTask);  # those that have run for a second or longer
  memoryLimitBytes @8 :UInt64;  # what the host, or the control group of the agent, may use; 0: not known
  workersUnchanged @9 :Bool;    # there are none here: they are as in the last report of this connection
}

struct RunningTask {
  # Times are on the clock of sentAt.
  session @0 :Data;
  task @1 :UInt64;
  attempt @2 :UInt32;
  worker @3 :UInt32;       # its index; beyond the workers: a process for nested tasks
  pid @4 :UInt64;
  startedAt @5 :Float64;
  activeAt @6 :Float64;    # when its process was last seen to use processor time
  cpuPercent @7 :Float64;
  rssBytes @8 :UInt64;
  blocked @9 :Bool;        # it waits for tasks of its own, or for a lock
}

struct HeartbeatEcho {
  sentAt @0 :Float64;  # 0: answers no heartbeat, tells only what follows
  watched @1 :Bool;    # agents say of results which worker made them, and when
}

struct Blocked {
  lentSlots @0 :UInt32;
  deepest @1 :UInt32;
  anyDepth @2 :Bool;  # nothing runs there, and a task waits for a lock: lent slots take tasks of any depth
  lentByActors @3 :UInt32;  # how many of the slots are lent by actors, whose calls wait
}

struct Relay {
  # The frames relayed are this message's further frames.
  session @0 :Data;
}

struct RelayClosed {
  session @0 :Data;
}

struct ObjectKey {
  owner @0 :Data;
  number @1 :UInt64;
}

struct ObjectChunk {
  # The bytes are this message's payload frame.
  key @0 :ObjectKey;
  size @1 :UInt64;
  offset @2 :UInt64;
}

struct ObjectRequest {
  key @0 :ObjectKey;
  relayed @1 :Bool;  # no store that has it can be reached from here: the bytes must come this way
  offset @2 :UInt64;  # between stores: where to begin
  direct @3 :Bool;  # from a client: its host's store can fetch it from another
  waits @4 :Bool;  # from an agent: it waits for a result that is being made again
}

struct ObjectCredit {
  key @0 :ObjectKey;
  offset @1 :UInt64;
}

struct ObjectMissing {
  key @0 :ObjectKey;
  text @1 :Text;
  isMadeAgain @2 :Bool;  # scheduler to agent: a request that waits is answered when the result is there
}

struct ObjectRelease {
  keys @0 :List(ObjectKey);
  client @1 :Data;  # empty: none
}

struct KeepValues {
  keys @0 :List(ObjectKey);
}

struct ExplainRequest {
  task @0 :UInt64;
}

struct ClusterInfoReply {
  snapshot @0 :Data;  # zlib: one message of the monitor stream; empty: too large
}

struct Explanation {
  task @0 :UInt64;
  text @1 :Text;
}

struct Output {
  session @0 :Data;
  task @1 :UInt64;
  stream @2 :UInt8;
  data @3 :Data;
  warnings @4 :Data;  # since 1.2: the pickle of a list of (pickled category, message, file, line, module)
}

struct ShutdownReply {
  accepted @0 :Bool;
  text @1 :Text;
}

struct ControlRequest {
  number @0 :UInt64;
  action @1 :UInt8;     # 0 pause, 1 resume, 2 drain; cancel the tasks of 3 a client, 4 a function, 5 one task, 6 a graph;
                        # 7 kill and 8 restart a worker process; 9 weight of a client, 10 weight and 11 limit of a group;
                        # priority of the waiting tasks of 12 a client, 13 a function
  target @2 :Text;
  value @3 :Float64;    # of actions 9 to 13
}

struct ProfileRequest {
  number @0 :UInt64;
  session @1 :Data;      # whose tasks; zero: all
  intervalUs @2 :UInt32; # 0: the end
}

struct ProfileReply {
  number @0 :UInt64;
  accepted @1 :Bool;
  text @2 :Text;
  remaining @3 :UInt32;
  profile @4 :Data;      # compressed JSON
}

struct EndProcess {
  worker @0 :Text;
  atOnce @1 :Bool;      # otherwise when its task has ended
}

struct ControlReply {
  number @0 :UInt64;
  accepted @1 :Bool;
  text @2 :Text;
  names @3 :List(Text);
  count @4 :UInt64;
}

struct ObjectStored {
  key @0 :ObjectKey;
  size @1 :UInt64;
  store @2 :Data;
}

struct ObjectsStored {
  owner @0 :Data;
  numbers @1 :Data;  # u64 column
  sizes @2 :Data;  # u64 column
  store @3 :Data;
}

struct ObjectLocations {
  key @0 :ObjectKey;
  size @1 :UInt64;
  sources @2 :List(Text);  # endpoints of stores, the one to ask first first
}

struct ObjectsLost {
  keys @0 :List(ObjectKey);
}

struct StoreAttached {
  store @0 :Data;
  endpoint @1 :Text;  # where it serves other stores; empty: nowhere
}

# ---- a host's store and its peers -----------------------------------------------------------------------------------

enum StoreFailure {
  full @0;
  tooLarge @1;
  unreachable @2;
}

struct StoreSettings {
  memoryBytes @0 :UInt64;
  spillDirectory @1 :Text;
  host @2 :Text;
  receivesLog @3 :Bool;  # since 1.4
}

struct StoreCreate {
  key @0 :ObjectKey;
  size @1 :UInt64;
}

struct StoreGranted {
  key @0 :ObjectKey;
  segment @1 :UInt64;
  segmentSize @2 :UInt64;
  offset @3 :UInt64;
  size @4 :UInt64;
  fresh @5 :Bool;   # its pages are not reserved yet
  sealed @6 :Bool;  # exists already
}

struct StoreRefused {
  key @0 :ObjectKey;
  failure @1 :UInt16;  # a StoreFailure
  text @2 :Text;
}

struct StoreSeal {
  key @0 :ObjectKey;
}

struct StoreAbandon {
  key @0 :ObjectKey;
}

struct StoreReserve {
  size @0 :UInt64;
}

struct StoreRegion {
  segment @0 :UInt64;
  segmentSize @1 :UInt64;
  offset @2 :UInt64;
  size @3 :UInt64;
  fresh @4 :Bool;
}

struct StorePlace {
  key @0 :ObjectKey;
  offset @1 :UInt64;
  size @2 :UInt64;
}

struct StorePlaceMany {
  owner @0 :Data;
  numbers @1 :Data;  # u64 column
  offset @2 :UInt64;
  sizes @3 :Data;  # u64 column
}

struct StoreGet {
  key @0 :ObjectKey;
}

struct StoreExtent {
  key @0 :ObjectKey;
  segment @1 :UInt64;
  segmentSize @2 :UInt64;
  offset @3 :UInt64;
  size @4 :UInt64;
  pin @5 :UInt64;
  copied @6 :Bool;
}

struct StoreRelease {
  pins @0 :Data;  # u64 column
}

struct StoreFind {
  key @0 :ObjectKey;
}

struct StoreFound {
  key @0 :ObjectKey;
  size @1 :UInt64;
}

struct StoreDrop {
  keys @0 :List(ObjectKey);
}

struct StoreForget {
  owner @0 :Data;
}

struct StoreFetch {
  key @0 :ObjectKey;
  size @1 :UInt64;
  sources @2 :List(Text);  # endpoints, tried in this order
}

struct StoreStatus {
  store @0 :Data;
  pid @1 :UInt64;
  endpoint @2 :Text;
  objects @3 :UInt64;
  usedBytes @4 :UInt64;
  reservedBytes @5 :UInt64;
  capacityBytes @6 :UInt64;
  pinnedBytes @7 :UInt64;
  spilledBytes @8 :UInt64;
  sentBytes @9 :UInt64;
  receivedBytes @10 :UInt64;
  diskFreeBytes @11 :UInt64;      # of the file system of the spill directory; 0: not known
  diskCapacityBytes @12 :UInt64;
  receivedFrom @13 :List(ReceivedBytes);  # of receivedBytes: those from other stores, at most 64 of these, the most first
  largestBytes @14 :UInt64;       # no object is larger; 0: not known
  owners @15 :Data;               # sessions with objects in it, 16 bytes each, at most 64 of them, in turn
}

struct ReceivedBytes {
  endpoint @0 :Text;  # of the store that has sent them
  sizeBytes @1 :UInt64;
}

struct StoreSegmentClosed {
  segment @0 :UInt64;
}

# ---- coordination: what clients and tasks of a cluster share by name ------------------------------------------------

enum CoordinationKind {
  lock @0;
  semaphore @1;
  event @2;
  variable @3;
  queue @4;
  published @5;
}

enum LockAction {
  acquire @0;  # wait until it is free
  try @1;      # take it if it is free now
  release @2;  # end this request, whether it holds the lock or waits for it
  restate @3;  # to a scheduler that has restarted: this request holds the lock
  ask @4;      # is it held?
}

enum LockState {
  waiting @0;
  granted @1;
  denied @2;    # to try: another request holds it
  released @3;
  lost @4;      # this request does not hold it any more, or never did
  refused @5;
  free @6;      # to ask
  held @7;      # to ask
}

struct LockRequest {
  kind @0 :UInt8;         # a CoordinationKind
  action @1 :UInt8;       # a LockAction
  number @2 :UInt64;      # of the request within its session; numbers of acquire, try and restate increase
  name @3 :Text;          # empty for release
  taskSession @4 :Data;   # the execution of a task that asks: the request ends with it; empty: none
  task @5 :UInt64;
  attempt @6 :UInt32;
  limit @7 :UInt32;       # of a semaphore: how many requests may hold it at a time; 0 for locks and for release
}

struct LockReply {
  kind @0 :UInt8;
  state @1 :UInt8;        # a LockState
  number @2 :UInt64;
  text @3 :Text;          # lost and refused: why, in a sentence
}

enum NamedAction {
  set @0;       # there is a value from now on
  clear @1;     # there is none from now on
  read @2;      # the value; wait until there is one
  peek @3;      # the value, if there is one now
  withdraw @4;  # end the request of this number, which waits
  restate @5;         # to a scheduler that has restarted: this session set the value
  restateCleared @6;  # to a scheduler that has restarted: this session cleared the value
  put @7;       # append an item to a queue; wait until there is room
  tryPut @8;    # append an item, if there is room now
  take @9;      # remove and return the first item; wait until there is one
  tryTake @10;  # remove and return the first item, if there is one now
  count @11;    # the number of items
  return @12;   # this item, which was taken, is the first one again
  trySet @13;   # publish a value, if none of this name is published
  list @14;     # the names of all published values; the name of the request is ignored
}

enum NamedState {
  waiting @0;
  done @1;
  absent @2;    # nothing was done: there is no value, no item or no room, or for trySet a value
  refused @3;
  ended @4;     # this request does not wait any more; for restate, the value has been replaced meanwhile
}

struct NamedRequest {
  kind @0 :UInt8;         # a CoordinationKind
  namedAction @1 :UInt8;  # a NamedAction
  number @2 :UInt64;      # of the request within its session; increases, except for withdraw, restate and restateCleared
  name @3 :Text;          # empty for withdraw
  value @4 :Data;         # for set, trySet, restate, put, tryPut and return
  version @5 :UInt64;     # for restate and restateCleared: that of the reply
  taskSession @6 :Data;   # the execution of a task that asks: a request that waits ends with it; empty: none
  task @7 :UInt64;
  attempt @8 :UInt32;
  limit @9 :UInt32;       # how many items a queue may have; 0: as many as there are
}

struct NamedReply {
  kind @0 :UInt8;
  namedState @1 :UInt8;   # a NamedState
  number @2 :UInt64;
  text @3 :Text;          # refused and ended: why, in a sentence
  value @4 :Data;         # for read, peek, take and tryTake; for list the names, with zero bytes between them
  version @5 :UInt64;     # for set, trySet and clear: increases with each change
  count @6 :UInt32;       # for count; for clear: how many values there were
}
