"""One Raft node: the loop that drives Raft and the log, proposals, reads, snapshots, the state machine."""
