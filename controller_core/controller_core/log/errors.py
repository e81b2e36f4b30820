"""What the log refuses, each with its own class: our misuse, a damaged store, a full disk, a failed disk.

A caller acts differently on each: misuse is a bug and ends the task that did it; damage refuses to start and
names the place; a full disk is waited out; a failed write or fsync ends the node, because what the disk holds
is then unknown.
"""


class LogMisuseError(Exception):
    """The caller asked for something that the contract of the store rules out; a bug of ours."""


class LogFailedError(Exception):
    """A write or fsync failed: the store is unusable and stays so; it is never retried.

    A second fsync after a failed one may answer success although the pages were dropped (Linux marks them
    clean), so a retry would acknowledge bytes that are not on disk.
    """


class LogFullError(Exception):
    """The disk is full; nothing of the batch is in the log, and the same batch may be written again."""


class LogLockedError(Exception):
    """Another process holds the store."""


class LogCorruptError(Exception):
    """The bytes on disk differ from the bytes that were written.

    Attributes:
        path: the file.
        offset: where in the file, in bytes.
        expected: the right content.
        found: the actual content.
    """

    def __init__(self, path: str, offset: int, expected: str, found: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: expected {expected}, found {found}")
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found


class LogBoundsError(LogCorruptError):
    """A term or index on disk is over its bound: no election or entry could follow it.

    Versions without bounds on peers' messages stored what a stranger on the peers' port sent.

    Attributes:
        value: the stored value.
        value_max: the bound.
    """

    def __init__(self, path: str, offset: int, what: str, value: int, value_max: int) -> None:
        super().__init__(path, offset, f"a {what} of at most {value_max}", str(value))
        self.args = (
            f"{path} holds {what} {value} at byte {offset}, expected at most {value_max}: only a message "
            "that no controller sends leads to it. Do not edit the file. "
            "If most of the other controllers are well: stop this one, move its directory away, "
            "start it, then `controller-core members remove` and `members add` it; "
            "if not, restore the directories of a majority from a backup (docs/reference/controllers.md)",
        )
        self.value = value
        self.value_max = value_max
