"""Which requests give a slave the users and rights of its master?

A slave copies topics, groups and offsets from its master, but not the users: each broker keeps its own in
RocksDB. A replaced member lacks them, and refuses all clients when it becomes master. The answers of a
master to 3005 and 3010 have all that another broker needs, passwords included.

The slave gets all users and rights of its master, and differing ones are overwritten. A deletion is not so
simple: a master that lacks a user may be the one that lost it. So the slave keeps a user, or a right, until
this process saw it vanish from the same master (`UserComparison`).

The broker's own user, which signs these requests, is left alone: its Secret decides about it.
"""

from typing import Final

from controller_core.access.user_table import UserRequest, UserTable, changes

_EMPTY: Final = UserTable()


class UserComparison:
    """Remembers the users and rights of one master, to distinguish deletions from losses."""

    def __init__(self) -> None:
        """Know no master yet."""
        self._master: tuple[str, int] | None = None
        self._seen = _EMPTY
        self._gone = _EMPTY

    def forget(self) -> None:
        """Learn that the broker follows no master, or that this process no longer knows which."""
        self._master, self._seen, self._gone = None, _EMPTY, _EMPTY

    def changes(
        self, master_key: tuple[str, int], own: UserTable, master: UserTable
    ) -> tuple[UserRequest, ...]:
        """Return the requests for the slave now; `master_key` is the master's address and its epoch."""
        if master_key != self._master:
            self.forget()
            self._master = master_key
        vanished = self._seen.minus(master)
        self._gone = _joined(self._gone, vanished).minus(master)
        self._seen = master
        return changes(own, master, self._gone)


def _joined(table: UserTable, other: UserTable) -> UserTable:
    return UserTable({**table.users, **other.users}, {**table.rights, **other.rights})
