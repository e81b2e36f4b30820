"""Raft without I/O: the consensus core that the controller's log is agreed on with.

`raw_node.RawNode` is the way in. The algorithm is etcd raft's, message for message, so that its scenario
texts apply; `config` lists the parts that are not offered. No module here knows a clock, a disk, a socket or
a source of randomness.
"""
