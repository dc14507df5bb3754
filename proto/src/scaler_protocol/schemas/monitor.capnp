@0xc4f1a7d26be0935d;

# The monitor stream. Each ZeroMQ message on the monitor address has two frames: the kind as text ("snapshot"), which is
# what watchers subscribe to, and one MonitorMessage. Fields and kinds are added at the end, never changed or removed.

struct MonitorMessage {
  major @0 :UInt16;          # a watcher refuses another major
  minor @1 :UInt16;
  sequence @2 :UInt64;       # counts messages of this publisher; a repeated one is the same message again
  union {
    none @3 :Void;
    snapshot @4 :Snapshot;
  }
}

struct Snapshot {
  scheduler @0 :SchedulerStatus;
  tasks @1 :TaskCounts;
  sent @2 :List(MessageCount);
  received @3 :List(MessageCount);
  agents @4 :List(AgentStatus);
  clients @5 :List(ClientStatus);
  functions @6 :List(FunctionStatus);
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

struct MessageCount {
  name @0 :Text;
  count @1 :UInt64;
}

struct AgentStatus {
  session @0 :Data;
  name @1 :Text;
  host @2 :Text;
  pid @3 :UInt32;
  state @4 :UInt8;           # 0 connected, 1 suspect, 2 lost
  cpuPercent @5 :Float32;
  rssBytes @6 :UInt64;
  rssFreeBytes @7 :UInt64;
  queued @8 :UInt64;
  lagSeconds @9 :Float32;
  sent @10 :UInt64;
  free @11 :UInt64;
  silentSeconds @12 :Float32;
  workers @13 :List(WorkerStatus);
}

struct WorkerStatus {
  name @0 :Text;
  pid @1 :UInt32;
  cpuPercent @2 :Float32;
  rssBytes @3 :UInt64;
  initialized @4 :Bool;
  hasTask @5 :Bool;
  slotLent @6 :Bool;
}

struct ClientStatus {
  session @0 :Data;
  host @1 :Text;
  pid @2 :UInt32;
  connected @3 :Bool;
  unassigned @4 :UInt64;
  running @5 :UInt64;
  finished @6 :UInt64;
  parentSession @7 :Data;
}

struct FunctionStatus {
  digest @0 :Data;
  name @1 :Text;
  unfinished @2 :UInt64;
  finished @3 :UInt64;
}
