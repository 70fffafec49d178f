# SPDX-License-Identifier: MIT
#
# What a recording says about itself, and its events. See docs/store-format.md.
@0xb5f0a1c29d3e4476;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("ttq::schema");

struct Recording {
  storeVersion @0 :UInt32;
  command @1 :List(Text);
  workingDirectory @2 :Text;
  host @3 :Text;
  recorderVersion @4 :Text;
  startWallNs @5 :Int64;
  finished @6 :Bool;
}

struct ThreadInfo {
  number @0 :UInt32;
  osTid @1 :UInt32;
  start @2 :UInt64;
  end @3 :UInt64;      # all ones: it never ended
  instructions @4 :UInt64;
  name @5 :Text;
  # Of a core dump or a snapshot: the number of the system call that it was in; -1: none.
  syscall @6 :Int64 = -1;
}

# A descriptor that was open at the moment that a core dump or a snapshot is of.
struct Descriptor {
  fd @0 :Int32;
  what @1 :Text;             # as /proc/PID/fd says it
}

struct Process {
  number @0 :UInt32;
  parent @1 :UInt32;         # 0: none
  byExec @2 :Bool;
  forkTime @3 :UInt64;       # of the parent's timeline
  pid @4 :UInt32;
  program @5 :Text;
  arguments @6 :List(Text);
  workingDirectory @7 :Text;
  end @8 :UInt64;
  crash @9 :Int64;           # -1: none
  fatalSignal @10 :UInt32;   # 0: none
  exitStatus @11 :Int32;     # -1: none
  startWallNs @12 :Int64;
  endWallNs @13 :Int64;
  blocks @14 :UInt64;
  writes @15 :UInt64;
  reads @16 :UInt64;
  logBytes @17 :UInt64;
  complete @18 :Bool;
  incompleteReason @19 :Text;
  threads @20 :List(ThreadInfo);
  closed @21 :Bool;          # nothing will be added
  # Of a forked process: how many of its parent's blocks it goes on from. Without them its own rows
  # mean nothing, and do not count. 0: older recordings, which have forkTime alone.
  forkBlocks @22 :UInt32;
  beginning @23 :UInt8;      # ttq::Beginning
  descriptors @24 :List(Descriptor);
  # What of its time line the blocks cover: from indexedFrom on, where memory is as the first block,
  # an empty one, has it, and before indexedTo. Threads, events and mappings are those of all of it,
  # and so is end.
  indexedFrom @25 :UInt64 = 0;
  indexedTo @26 :UInt64 = 0xffffffffffffffff;
}

# Blocks whose rows were stored together, atomically, this record with them: what no group record
# names is not there.
struct Group {
  firstBlock @0 :UInt32;
  blocks @1 :List(BlockSummary);
  # The process as of the last of them, without its program, arguments and directory. Until it is
  # closed, its own record is as of its start.
  process @2 :Process;
  struct BlockSummary {
    endTime @0 :UInt64;      # the first time after it
    wallStartNs @1 :Int64;
    wallEndNs @2 :Int64;
    logBytes @3 :UInt32;     # before compression
    flags @4 :UInt32;        # 1: holds control records that change mappings
  }
}

struct ThreadSnapshot {
  tid @0 :UInt32;            # Valgrind's, reused
  number @1 :UInt32;         # ours, not reused
  registers @2 :List(UInt64);
  pc @3 :UInt64;             # next instruction; 0 when not known
  lastPc @4 :UInt64;         # last one executed; 0: none yet
}

struct BlockHeader {
  startTime @0 :UInt64;
  currentTid @1 :UInt32;
  nextThread @2 :UInt32;
  threads @3 :List(ThreadSnapshot);
  logBytes @4 :UInt32;
  logHash @5 :UInt64;        # ttq::PackedLogHash
  logParts @6 :List(LogPart);  # tokens, headers, units; see store/walk/packed_log.h

  struct LogPart {
    bytes @0 :UInt32;
    storedBytes @1 :UInt32;  # as many: as they are; fewer: a zstd frame
  }
}

struct Event {
  kind @0 :UInt8;            # ttq::EventKind
  thread @1 :UInt32;
  pc @2 :UInt64;
  number @3 :Int64;
  result @4 :Int64;
  args @5 :List(UInt64);
  text @6 :Text;
  bytes @7 :Data;
  wallNs @8 :Int64;
}

struct File {
  path @0 :Text;
  size @1 :UInt64;
  buildId @2 :Text;
}
