"""Replay of scenario texts against the Raft core: commands in, etcd's text form of what happened out.

A text is a list of cases: a command, `----`, the expected output. Three environments understand three
vocabularies: `interaction` (a group of nodes with storage and a message bag), `quorum` and `confchange`.
"""
