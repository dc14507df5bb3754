@0xc4f1a7d26be0935d;

# The monitor stream. Each ZeroMQ message on the monitor address has two frames: the kind as text ("snapshot", "events"),
# which is what watchers subscribe to, and one MonitorMessage. Fields and kinds are added at the end, never changed or removed.

struct MonitorMessage {
  major @0 :UInt16;          # a watcher refuses another major
  minor @1 :UInt16;
  sequence @2 :UInt64;       # counts messages of this publisher; a repeated one is the same message again
  union {
    none @3 :Void;
    snapshot @4 :Snapshot;
    events @5 :Events;
  }
}

# Rows travel as columns of equal length: a thousand workers cost the scheduler a millisecond or two, not ten. A column
# of numbers is packed little-endian in Data: u64, f32 and f64 (IEEE 754) or u8 (0 or 1).

struct Snapshot {
  scheduler @0 :SchedulerStatus;
  tasks @1 :TaskCounts;
  sent @2 :MessageColumns;
  received @3 :MessageColumns;
  agents @4 :AgentColumns;
  workers @5 :WorkerColumns;     # those of the first agent, then those of the second, ...
  clients @6 :ClientColumns;
  functions @7 :FunctionColumns;
  time @8 :Float64;              # seconds since 1970
  settings @9 :SettingColumns;
  waits @10 :WaitColumns;
  graphs @11 :GraphColumns;
  stores @12 :StoreColumns;
  events @13 :EventTotals;
  functionCount @14 :UInt64;     # of these three the columns may show only a part
  waitCount @15 :UInt64;
  graphCount @16 :UInt64;
  trouble @17 :Text;             # what the scheduler cannot do now, such as writing its event log: a plain sentence
  running @18 :RunningTaskColumns;   # those of the first agent, then those of the second, ...
  endedClients @19 :EndedClientColumns;
  objects @20 :ObjectColumns;    # the largest ones
  maps @21 :MapColumns;          # the latest ones of each client
  traffic @22 :TrafficColumns;   # between hosts
  groups @23 :GroupColumns;      # those of the clients
  actors @24 :ActorColumns;      # those with most unfinished calls
  actorCount @25 :UInt64;        # how many there are
}

struct Events {
  # Records of what happened, back to back; see "Event records" in docs/monitor.md.
  time @0 :Float64;
  first @1 :UInt64;    # number of the first record
  records @2 :Data;
  dropped @3 :UInt64;  # records lost before this batch
  count @4 :UInt64;    # records in this batch
  epoch @5 :UInt64;    # of the scheduler
}

struct EventTotals {
  recorded @0 :UInt64;
  dropped @1 :UInt64;
}

struct SchedulerStatus {
  address @0 :Text;
  epoch @1 :UInt64;
  version @2 :Text;
  host @3 :Text;
  pid @4 :UInt32;
  uptimeSeconds @5 :Float64;
  cpuPercent @6 :Float32;
  rssBytes @7 :UInt64;
}

struct TaskCounts {
  unassigned @0 :UInt64;     # now
  running @1 :UInt64;        # now
  success @2 :UInt64;        # since the scheduler started, as all below
  failed @3 :UInt64;
  canceled @4 :UInt64;
  notFound @5 :UInt64;
}

struct MessageColumns {
  name @0 :List(Text);
  count @1 :Data; # u64
}

struct AgentColumns {
  session @0 :List(Data);
  name @1 :List(Text);
  host @2 :List(Text);
  pid @3 :Data; # u64
  state @4 :Data; # u64: 0 connected, 1 suspect, 2 lost, 3 paused
  cpuPercent @5 :Data; # f32
  rssBytes @6 :Data; # u64
  rssFreeBytes @7 :Data; # u64
  queued @8 :Data; # u64
  lagSeconds @9 :Data; # f32
  sent @10 :Data; # u64
  free @11 :Data; # u64
  silentSeconds @12 :Data; # f32
  workers @13 :Data; # u64: how many
  running @14 :Data; # u64: how many rows of running tasks
  memoryLimitBytes @15 :Data; # u64: what the host or control group may use; 0: not known
  capabilities @16 :List(Text); # that each worker offers
  capabilitiesLeft @17 :List(Text); # that no task has taken, of all workers together
  draining @18 :Data; # u8: it is paused because it leaves
}

struct RunningTaskColumns {
  # Tasks that have run for a second or longer.
  session @0 :List(Data);
  function @1 :List(Text);
  digest @2 :List(Data);
  task @3 :Data; # u64
  attempt @4 :Data; # u64
  worker @5 :Data; # u64: index of the worker; 65535: a process for nested tasks
  pid @6 :Data; # u64
  seconds @7 :Data; # f32: since it started
  idleSeconds @8 :Data; # f32: since its process last used processor time
  usualSeconds @9 :Data; # f32: how long tasks of this function take; 0: not known
  cpuPercent @10 :Data; # f32
  rssBytes @11 :Data; # u64
  blocked @12 :Data; # u8
  module @13 :List(Text); # of the function
  actor @14 :Data; # u8: it is an actor, which runs until it is ended
  mapNumber @15 :Data; # u64: of the map to which it belongs, inside its session; 0: none
  graph @16 :Data; # u64: the number of the last task of its graph; 0: none
  actorName @17 :List(Text); # of the actor that it is, or of which it is a call; empty: none
  priority @18 :Data; # i64
}

struct WorkerColumns {
  name @0 :List(Text);
  pid @1 :Data; # u64
  cpuPercent @2 :Data; # f32
  rssBytes @3 :Data; # u64
  initialized @4 :Data; # u8
  hasTask @5 :Data; # u8
  slotLent @6 :Data; # u8
}

struct ClientColumns {
  session @0 :List(Data);
  host @1 :List(Text);
  pid @2 :Data; # u64
  connected @3 :Data; # u8
  unassigned @4 :Data; # u64
  running @5 :Data; # u64
  finished @6 :Data; # u64
  parentSession @7 :List(Data);
  group @8 :List(Text);
  weight @9 :Data; # f64
  share @10 :Data; # f64
  usedSeconds @11 :Data; # f32
  failed @12 :Data; # u64: of the finished ones, as is the next one
  canceled @13 :Data; # u64
  user @14 :List(Text); # its login name, as it says
  keyName @15 :List(Text); # the name of its key, which it has proved; empty: none
  program @16 :List(Text); # as it says
  askedWeight @17 :Data; # f32: the weight that it has asked for; 0: not known
}

struct GroupColumns {
  # What operators have set for the groups of clients.
  name @0 :List(Text);
  weight @1 :Data; # f32: among the groups
  workerLimit @2 :Data; # u64: how many workers it may use; 0: any number
}

struct ActorColumns {
  # Actors that an agent has, or that wait for a worker.
  session @0 :List(Data);
  task @1 :Data; # u64: the number of the task that makes it
  function @2 :List(Text); # its class
  host @3 :List(Text); # empty: it waits for a worker
  worker @4 :List(Text); # empty: not known
  isMade @5 :Data; # u8: it takes calls
  running @6 :Data; # u64: calls that run
  waiting @7 :Data; # u64: its other unfinished calls
  restarts @8 :Data; # u64: how often its process or its host has died
  restartsLimit @9 :Data; # u64: how often it is made again after that; 2147483647: always
  seconds @10 :Data; # f32: since its client asked for it
  module @11 :List(Text); # of the class
  name @12 :List(Text); # that get_actor finds; empty: none
}

struct EndedClientColumns {
  session @0 :List(Data); # empty: several clients
  host @1 :List(Text);
  pid @2 :Data; # u64
  group @3 :List(Text);
  finished @4 :Data; # u64
  usedSeconds @5 :Data; # f64
  count @6 :Data; # u64
  failed @7 :Data; # u64: of the finished ones, as is the next one
  canceled @8 :Data; # u64
  user @9 :List(Text); # this and the next two as of clients
  keyName @10 :List(Text);
  program @11 :List(Text);
}

struct FunctionColumns {
  digest @0 :List(Data);
  name @1 :List(Text);
  unfinished @2 :Data; # u64
  finished @3 :Data; # u64
  succeeded @4 :Data; # u64
  failed @5 :Data; # u64
  canceled @6 :Data; # u64
  durationSeconds @7 :Data; # f64
  cpuSeconds @8 :Data; # f64
  executions @9 :Data; # u64
  medianSeconds @10 :Data; # f64
  p95Seconds @11 :Data; # f64
  longestSeconds @12 :Data; # f64
  durationCounts @13 :List(Data); # u64 columns: executions between successive bounds of durations
  waitCounts @14 :List(Data); # the same of first attempts, by how long they waited for a worker
  dependenciesSeconds @15 :Data; # f64
  waitingSeconds @16 :Data; # f64
  fetchingSeconds @17 :Data; # f64
  loadingSeconds @18 :Data; # f64
  storingSeconds @19 :Data; # f64
  number @20 :Data; # u64: of its colour, from 1 on
  module @21 :List(Text); # in which it is defined; empty: not known
}

struct SettingColumns {
  name @0 :List(Text);
  value @1 :List(Text);
}

struct WaitColumns {
  digest @0 :List(Data);
  function @1 :List(Text);
  reason @2 :List(Text);
  count @3 :Data; # u64
  oldestSeconds @4 :Data; # f64
  session @5 :List(Data);
  task @6 :Data; # u64
  module @7 :List(Text); # of the function
  demand @8 :List(Text);
  place @9 :List(Text);
  priority @10 :Data; # i64: of the task
  lowestPriority @11 :Data; # i64: of all tasks of the group
  highestPriority @12 :Data; # i64
}

struct GraphColumns {
  session @0 :List(Data);
  graph @1 :Data; # u64, as all below
  nodes @2 :Data;
  waiting @3 :Data;
  ready @4 :Data;
  running @5 :Data;
  done @6 :Data;
  failed @7 :Data; # or cancelled
  canceled @8 :Data; # of the failed ones
}

struct StoreColumns {
  host @0 :List(Text);
  objects @1 :Data; # u64, as all below
  usedBytes @2 :Data;
  capacityBytes @3 :Data;
  spilledBytes @4 :Data;
  sentBytes @5 :Data;
  receivedBytes @6 :Data;
  endpoint @7 :List(Text); # where stores of other hosts connect; empty: they cannot
  diskFreeBytes @8 :Data; # of the file system to which it spills; 0: not known
  diskCapacityBytes @9 :Data;
}

struct ObjectColumns {
  session @0 :List(Data); # of the client that sent it, or to whose task it belongs
  number @1 :Data; # u64, as all below that are Data: the task whose result it is; 0: a function; from 2^63 on: it was sent
  digest @2 :List(Data); # of a function
  sizeBytes @3 :Data;
  copies @4 :Data; # hosts that have it
  hosts @5 :List(Text);
  readers @6 :Data; # unfinished tasks that need it
  readerTasks @7 :List(Text); # the numbers of the first of them
  hostNames @8 :List(List(Text)); # the first of the hosts that have it
}


struct MapColumns {
  session @0 :List(Data);
  number @1 :Data; # u64, as all below that are Data
  function @2 :List(Text);
  total @3 :Data; # tasks that have come so far
  unfinished @4 :Data;
  running @5 :Data; # of these: assigned to an agent
  failed @6 :Data; # or cancelled
  module @7 :List(Text); # of the function
  canceled @8 :Data; # of the failed ones
  toCome @9 :Data; # tasks that the client has still to submit, as far as it has said
  isOpen @10 :Data; # u8: further tasks may come, and their number is not known
}

struct TrafficColumns {
  source @0 :List(Text); # the host whose store has sent
  target @1 :List(Text); # the host whose store has received
  receivedBytes @2 :Data; # u64
}
