"""What RocketMQ's own controllers leave in `controllerStorePath`, to tell people that it is not read.

    jRaft     log/ (RocksDB), raft_meta/, snapshot/
    DLedger   dledger-<selfId>/

Source: RocketMQ 5.4.0 JRaftController.java; DLedgerConfig.java 0.3.2, getDefaultPath.
"""

from pathlib import Path


def java_store(directory: Path) -> str | None:
    """Return a sentence about the store of RocketMQ's own controller in a directory; None without one."""
    try:
        names = {path.name for path in directory.iterdir() if path.is_dir()}
    except OSError:
        return None  # Opening our own log reports the error.
    if "raft_meta" in names:
        found = sorted(names & {"log", "raft_meta", "snapshot"})
        return _text(directory, "jRaft", found)
    if dledger := sorted(name for name in names if name.startswith("dledger-")):
        return _text(directory, "DLedger", dledger)
    return None


def _text(directory: Path, kind: str, names: list[str]) -> str:
    return (
        f"{directory} has the store of RocketMQ's {kind} controller ({', '.join(names)}): "
        "this controller ignores it; brokers must register here again"
    )
