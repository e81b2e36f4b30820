"""Numbers that controllers and members of a group exchange, each of its own type.

Headers and bodies hold plain ints, as they come from the wire. The code that reads a request or an answer
makes these types.
"""

from typing import NewType

MasterEpoch = NewType("MasterEpoch", int)
"""Grows with every change of master of a group; 0 before the first. Neither a Raft term nor a `SetEpoch`."""
SetEpoch = NewType("SetEpoch", int)
"""Version of the SyncStateSet of a group."""
BrokerId = NewType("BrokerId", int)
"""The number that a controller gave a member of a group."""
LogOffset = NewType("LogOffset", int)
"""Position in a commit log, in bytes; -1 if unknown. An offset in a queue counts messages and is not one."""
