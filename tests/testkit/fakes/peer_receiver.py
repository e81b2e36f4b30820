"""The receiver of a controller's messages from its peers, played by hand."""

import asyncio

from controller_core.raft.types import Message


class RecordingReceiver:
    """Keeps all messages and reports of a transport, in order."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.unreachable: asyncio.Queue[int] = asyncio.Queue()
        self.snapshots: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()

    def receive(self, message: Message) -> None:
        """Keep a message."""
        self.messages.put_nowait(message)

    def peer_unreachable(self, node_id: int) -> None:
        """Keep a report."""
        self.unreachable.put_nowait(node_id)

    def snapshot_sent(self, node_id: int, ok: bool) -> None:
        """Keep a report."""
        self.snapshots.put_nowait((node_id, ok))
