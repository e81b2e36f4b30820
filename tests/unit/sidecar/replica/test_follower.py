"""The follower against masters by hand.

Whom it trusts after a restart, what a diverged log costs, one connection per id.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ha_sidecar.commitlog.store import ARCHIVE_DIRECTORY, ReplicaStore, read_epochs
from ha_sidecar.common.ha_link import DivergedError
from ha_sidecar.epoch import EpochList
from ha_sidecar.replica import follower as follower_module
from ha_sidecar.replica.follower import FOLLOWED_FILE
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import DivergenceReason
from ha_sidecar.transfer.codec import Handshake
from ha_sidecar.transfer.slave import NOBODY_ID
from testkit.ha.by_hand import HandMaster
from testkit.ha.following import OUR_ID, following
from testkit.ha.messages import log_bytes

FILE_BYTES = 4096
LOG = log_bytes(10, FILE_BYTES)
END = len(LOG)
DIVERGENCES = "rmqha_ha_divergences_total"


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Come back to the same master at once."""
    monkeypatch.setattr(follower_module, "SAME_ROLE_WAIT_S", 0.01)


@pytest.fixture
def hand() -> Iterator[HandMaster]:
    with HandMaster(FILE_BYTES) as made:
        yield made


@pytest.fixture
def other() -> Iterator[HandMaster]:
    with HandMaster(FILE_BYTES) as made:
        yield made


def serve_the_log(master: HandMaster, epoch: int = 1) -> None:
    """Give an empty slave the whole log in an epoch that began with it, and read its acks."""
    assert master.accept() == Handshake(OUR_ID)
    master.reply(END, (epoch, 0))
    assert master.ack() == 0
    master.send_log(LOG, 0, epoch)
    master.ack_of(END)


def come_back_restarted(master: HandMaster, epoch: int = 1) -> int:
    """End the connection, answer the next as a master restarted in its epoch; return the slave's ack."""
    master.peer.close()
    assert master.accept() == Handshake(OUR_ID)
    master.reply(END, (epoch, END))
    return master.ack()


async def test_a_master_that_restarted_in_its_epoch_is_followed_on_by_whom_it_served(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1, master_id=1)
        await asyncio.to_thread(serve_the_log, hand)
        assert json.loads((tmp_path / FOLLOWED_FILE).read_text()) == {"epoch": 1, "master_id": 1}
        assert await asyncio.to_thread(come_back_restarted, hand) == END
        await ours.until(lambda: ours.store.epochs == EpochList.of((1, END)), "the master's list")
        assert (ours.metric(DIVERGENCES), ours.events("Truncated")) == (0, [])
        assert [event["rule"] for event in ours.events("HandshakeDone")] == ["", "RestartedEpoch"]


async def test_a_restarted_master_is_not_trusted_where_elections_may_be_unclean(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES, unclean_election=True) as ours:
        await ours.led_by(hand.port, epoch=1, master_id=1)
        await asyncio.to_thread(serve_the_log, hand)
        assert (tmp_path / FOLLOWED_FILE).exists()
        await asyncio.to_thread(diverge, hand)
        ended = await ours.event("Disconnected", 2)
        assert ended["detail"].startswith("own EpochList{")
        await ours.until(lambda: ours.metric(DIVERGENCES) == 1, "divergence")


@pytest.mark.parametrize(
    ("setting", "told", "trusted"),
    [(False, True, False), (True, False, True), (True, None, False), (False, None, True)],
)
async def test_a_change_at_the_controllers_counts_when_a_master_restarts(
    hand: HandMaster, tmp_path: Path, *, setting: bool, told: bool | None, trusted: bool
) -> None:
    """What the controllers say now counts, and the setting where they say nothing."""
    async with following(tmp_path, FILE_BYTES, unclean_election=setting) as ours:
        await ours.led_by(hand.port, epoch=1, master_id=1)
        await asyncio.to_thread(serve_the_log, hand)
        ours.unclean = told
        if trusted:
            assert await asyncio.to_thread(come_back_restarted, hand) == END
        else:
            await asyncio.to_thread(diverge, hand)
            await ours.until(lambda: ours.metric(DIVERGENCES) == 1, "divergence")


def diverge(master: HandMaster, epoch: int = 1) -> None:
    """End the connection, and answer the next one with a list that shares no entry with the slave's."""
    master.peer.close()
    assert master.accept() == Handshake(OUR_ID)
    master.reply(END, (epoch, END))
    master.wait_closed()


async def test_another_master_of_the_same_epoch_is_not_taken_for_the_one_that_restarted(
    hand: HandMaster, other: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1, master_id=1)
        await asyncio.to_thread(serve_the_log, hand)
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(other.port, epoch=1, master_id=3)
        await asyncio.to_thread(diverge, other)
        await ours.until(lambda: ours.metric(DIVERGENCES) == 1, "divergence")


async def test_the_master_is_known_again_by_a_replica_that_was_restarted_itself(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1, master_id=1)
        await asyncio.to_thread(serve_the_log, hand)
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1, master_id=1)
        assert await asyncio.to_thread(come_back_restarted, hand) == END
        assert ours.metric(DIVERGENCES) == 0


async def test_a_diverged_log_is_moved_aside_and_counted_and_an_empty_one_is_filled(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1)
        await asyncio.to_thread(serve_the_log, hand)
        await ours.led_by(hand.port, epoch=7)
        await asyncio.to_thread(refuse, hand)
        await asyncio.to_thread(serve_the_log, hand, 7)
        assert ours.metric(DIVERGENCES) == 1
        aside = tmp_path / ARCHIVE_DIRECTORY / "1"
        assert next((aside / "commitlog").iterdir()).read_bytes()[:END] == LOG
        assert read_epochs(aside) == EpochList.of((1, 0))
        assert (ours.store.epochs, ours.store.log.max_offset) == (EpochList.of((7, 0)), END)


def refuse(master: HandMaster) -> None:
    """Answer the handshake as the master of epoch 7, whose log shares no byte with the slave's."""
    assert master.accept() == Handshake(OUR_ID)
    master.reply(END, (7, 0))
    master.wait_closed()


def boast(master: HandMaster, epoch: int) -> None:
    """Answer the handshake as a master of that epoch; the slave has to leave at once."""
    assert master.accept() == Handshake(OUR_ID)
    master.reply(END, (epoch, 0))
    master.wait_closed()


@pytest.mark.parametrize("epoch", [2, 2**31 - 1])
async def test_a_peer_that_shows_a_later_epoch_than_the_controllers_named_changes_nothing(
    hand: HandMaster, tmp_path: Path, epoch: int
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1)
        await asyncio.to_thread(serve_the_log, hand)
        hand.peer.close()
        await asyncio.to_thread(boast, hand, epoch)
        assert (await ours.event("Disconnected", 2))["reason"] == "EpochNotConfirmed"
        assert (ours.store.epochs, ours.store.log.max_offset) == (EpochList.of((1, 0)), END)
        assert not (tmp_path / ARCHIVE_DIRECTORY).exists()
        assert ours.metric(DIVERGENCES) == 0


async def test_a_log_that_was_copied_in_an_invented_epoch_gives_way_to_the_master_s(
    hand: HandMaster, tmp_path: Path
) -> None:
    with contextlib.closing(ReplicaStore(tmp_path, FILE_BYTES)) as store:
        store.adopt(EpochList.of((2**31 - 1, 0)))
        store.log.append(0, [memoryview(LOG)])
    (tmp_path / FOLLOWED_FILE).write_text(json.dumps({"epoch": 2**31 - 1, "master_id": 7}))
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=7)
        await asyncio.to_thread(refuse, hand)
        await asyncio.to_thread(serve_the_log, hand, 7)
        assert (ours.store.epochs, ours.store.log.max_offset) == (EpochList.of((7, 0)), END)
        assert json.loads((tmp_path / FOLLOWED_FILE).read_text()) == {"epoch": 7, "master_id": 1}
        assert read_epochs(tmp_path / ARCHIVE_DIRECTORY / "1") == EpochList.of((2**31 - 1, 0))


async def test_a_diverged_log_ends_the_replica_that_is_told_to_stop_and_stays_where_it_is(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES, on_divergence="stop") as ours:
        await ours.led_by(hand.port, epoch=1)
        await asyncio.to_thread(serve_the_log, hand)
        await ours.led_by(hand.port, epoch=7)
        await asyncio.to_thread(refuse, hand)
        with pytest.raises(DivergedError, match=f"{DivergenceReason.NO_COMMON_EPOCH}.*7:0"):
            await asyncio.wait_for(asyncio.shield(ours.work), 30.0)
        assert ours.metric(DIVERGENCES) == 1
        assert not (tmp_path / ARCHIVE_DIRECTORY).exists()
        assert (ours.store.epochs, ours.store.log.max_offset) == (EpochList.of((1, 0)), END)


def left_of(peer: socket.socket) -> bytes:
    """Return all that came on a connection whose other end is gone or has finished; it must not wait."""
    peer.setblocking(False)
    left = b""
    with contextlib.suppress(ConnectionResetError):
        while part := peer.recv(65_536):
            left += part
    return left


async def test_the_next_connection_to_a_master_begins_once_the_one_before_is_closed(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1)
        await asyncio.to_thread(serve_the_log, hand)
        for _ in range(3):
            before = hand.peer
            before.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n".ljust(64))
            hand.peer = socket.socket()
            assert await asyncio.to_thread(hand.accept) == Handshake(OUR_ID)
            left_of(before)  # an end is there to be read: it would wait otherwise
            before.close()
            hand.reply(END, (1, 0))
            assert await asyncio.to_thread(hand.ack) == END


async def test_a_new_master_hears_of_the_slave_once_no_connection_to_the_old_one_bears_its_id(
    hand: HandMaster, other: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1)
        await asyncio.to_thread(serve_the_log, hand)
        await ours.led_by(other.port, epoch=2, master_id=3)
        assert await asyncio.to_thread(other.accept) == Handshake(OUR_ID)
        # The link is over too, and nothing of it writes to the log any more.
        assert [event["reason"] for event in ours.events("Disconnected")] == ["Parted"]
        left = left_of(hand.peer)
        found = codec.decode_handshake(left[-codec.HANDSHAKE_BYTES :])
        assert found is not None
        assert found[0] == Handshake(NOBODY_ID, async_learner=True)


async def test_a_master_that_goes_on_in_a_later_epoch_is_shaken_hands_with_anew(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as ours:
        await ours.led_by(hand.port, epoch=1)
        await asyncio.to_thread(serve_the_log, hand)
        before, hand.peer = hand.peer, socket.socket()
        await ours.led_by(hand.port, epoch=2)
        assert await asyncio.to_thread(hand.accept) == Handshake(OUR_ID)
        before.close()
        hand.reply(END, (1, 0), (2, END))
        assert await asyncio.to_thread(hand.ack) == END
        await ours.until(lambda: ours.store.epochs == EpochList.of((1, 0), (2, END)), "epoch 2")


async def test_the_setting_reaches_the_handshake(hand: HandMaster, tmp_path: Path) -> None:
    async with following(tmp_path, FILE_BYTES, sync_from_last_file=True) as ours:
        await ours.led_by(hand.port, epoch=1)
        assert await asyncio.to_thread(hand.accept) == Handshake(OUR_ID, sync_from_last_file=True)


async def test_a_master_is_asked_where_it_is_met_and_not_where_its_address_leads(
    hand: HandMaster, tmp_path: Path
) -> None:
    async with following(tmp_path, FILE_BYTES) as follower:
        with socket.create_server(("127.0.0.1", 0)) as dead:
            await follower.led_by(hand.port, epoch=1, lent=f"127.0.0.1:{dead.getsockname()[1]}")
            await asyncio.to_thread(serve_the_log, hand)
            await follower.reach(END)
            dead.setblocking(False)
            with pytest.raises(BlockingIOError):
                dead.accept()


async def test_a_learner_says_so_in_its_handshake(hand: HandMaster, tmp_path: Path) -> None:
    def serve() -> Handshake | None:
        greeted = hand.accept()
        hand.reply(END, (1, 0))
        assert hand.ack() == 0
        hand.send_log(LOG, 0, 1)
        hand.ack_of(END)
        return greeted

    async with following(tmp_path, FILE_BYTES, learner=True, sync_from_last_file=True) as ours:
        await ours.led_by(hand.port, epoch=1, master_id=1)
        assert await asyncio.to_thread(serve) == Handshake(OUR_ID, True, True)
        await ours.until(lambda: ours.store.log.max_offset == END, "the log")
