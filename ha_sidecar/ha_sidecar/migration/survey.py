"""What running brokers say of themselves before they are stopped for good, and after their stores run again.

A broker without controllers has no epochs and no SyncStateSet, so the companion's questions do not fit. These
ask for its identity and its store's place (26), its log's end (28), its knowledge beside the log (21, 201,
43, 45), and, for a group whose log cannot be taken along, its unread messages (30, 31). Nothing is changed.

A delayed message counts as unread until it was delivered, one of a transaction until that is decided, one in
a topic that no group reads as long as it is stored. Topics that a broker has for itself hold nothing of a
client's and are left out.

Source: AdminBrokerProcessor.java (21, 26, 28, 30, 31, 43, 45), TopicValidator.java, MixAll.java 5.5.0.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.client_headers import GetOffsetRequestHeader, GetOffsetResponseHeader
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.header import Header
from controller_core.remoting.routes import KVTable
from ha_sidecar.address import host_port
from ha_sidecar.common import metadata
from ha_sidecar.decisions.broker_facts import settings
from ha_sidecar.decisions.metadata_comparison import GROUPS, OFFSETS, TOPICS, table
from ha_sidecar.decisions.metadata_tables import BY_CODE, MetadataSnapshot

TRIES_MAX: Final = 5
"""A JVM may take longer for its first answers than an ask waits."""
UNREAD_SHOWN_MAX: Final = 8
"""So many fit the termination message of a container, 4,096 bytes."""
_DELAYED: Final = "SCHEDULE_TOPIC_XXXX"
_TIMED: Final = "rmq_sys_wheel_timer"
_DELAY_OFFSETS: Final = BY_CODE[RequestCode.GET_ALL_DELAY_OFFSET]
_OF_BROKERS: Final = frozenset(
    {
        "TBW102",
        "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        _DELAYED,
    }
)
_PREFIX: Final = "rmq_sys_"
_SUFFIX: Final = "_REPLY_TOPIC"


@dataclass(frozen=True, slots=True)
class UnreadMessages:
    """Messages of a topic that a group has not read; of a topic that no group reads, all that are stored."""

    topic: str
    group: str
    messages: int


@dataclass(frozen=True, slots=True)
class BrokerSurvey:
    """What one broker says; offsets of the log in bytes.

    Attributes:
        address: the address of the question.
        permission: 6 takes and gives messages, 4 only gives them.
        store: its storePathRootDir.
        commit_log: its storePathCommitLog.
        kind: its storeType.
        file_bytes: its mappedFileSizeCommitLog.
        topics: how many it knows, its own included.
        groups: how many subscription groups.
        offsets: how many queues consumers have an offset in.
        consumed: the sum of these offsets.
    """

    address: str
    name: str
    cluster: str
    broker_id: int
    permission: int
    controller_mode: bool
    dledger: bool
    store: str
    commit_log: str
    kind: str
    file_bytes: int
    min_offset: int
    max_offset: int
    topics: int
    groups: int
    offsets: int
    consumed: int

    def json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


async def survey(address: str, sign: Sign | None = None) -> BrokerSurvey:
    """Ask a broker who it is and what it has; with `sign`, in signed requests.

    Raises:
        AskError: it does not answer.
        RemotingProtocolError: its answer cannot be read.
    """
    asker = Asker(host_port(address), sign)
    try:
        config, runtime, known = await _ask_state(asker)
    finally:
        asker.close()
    return parse_survey(address, config, runtime, known)


async def _ask_state(asker: Asker) -> tuple[Mapping[str, str], Mapping[str, str], MetadataSnapshot]:
    """Return a broker's settings, its figures, and its topics, groups and offsets."""
    config = (await _patiently(asker, RequestCode.GET_BROKER_CONFIG)).body.decode(errors="replace")
    runtime = KVTable.decode((await _patiently(asker, RequestCode.GET_BROKER_RUNTIME_INFO)).body)
    return settings(config), runtime.table, await metadata.fetch(asker)


def parse_survey(
    address: str, config: Mapping[str, str], runtime: Mapping[str, str], known: MetadataSnapshot
) -> BrokerSurvey:
    """Read the answers.

    Raises:
        RemotingProtocolError: one of them is not a broker's.
    """
    topics, groups, offsets = (table(kind, known.get(kind, b"")) for kind in (TOPICS, GROUPS, OFFSETS))
    if topics is None or groups is None or offsets is None:
        raise RemotingProtocolError(f"{address} does not tell its topics, groups or offsets")
    queues = [offset for queues_of_topic in offsets.values() for offset in queues_of_topic.values()]
    root = config.get("storePathRootDir", "")
    try:
        return BrokerSurvey(
            address=address,
            name=config["brokerName"],
            cluster=config["brokerClusterName"],
            broker_id=int(config["brokerId"]),
            permission=int(config["brokerPermission"]),
            controller_mode=config.get("enableControllerMode") == "true",
            dledger=config.get("enableDLegerCommitLog") == "true",
            store=root,
            # Java resolves it where it is used, and tells it as it was configured.
            commit_log=config.get("storePathCommitLog") or f"{root}/commitlog",
            kind=config.get("storeType", "default"),
            file_bytes=int(config["mappedFileSizeCommitLog"]),
            min_offset=int(runtime["commitLogMinOffset"]),
            max_offset=int(runtime["commitLogMaxOffset"]),
            topics=len(topics),
            groups=len(groups),
            offsets=len(queues),
            consumed=sum(queues),
        )
    except (KeyError, ValueError) as error:
        raise RemotingProtocolError(f"{address} does not tell what a broker tells: {error!r}") from error


async def unread(
    address: str, ignored: Collection[str] = (), sign: Sign | None = None
) -> list[UnreadMessages]:
    """Return what consumers have not read, the most first.

    Args:
        address: of the broker that takes messages, host:port.
        ignored: topics and groups to leave out.
        sign: signs the requests.

    Raises:
        AskError: it does not answer.
        RemotingProtocolError: its answer cannot be read.
    """
    asker = Asker(host_port(address), sign)
    try:
        config, runtime, known = await _ask_state(asker)
        topics, offsets = (table(kind, known.get(kind, b"")) for kind in (TOPICS, OFFSETS))
        if topics is None or offsets is None:
            raise RemotingProtocolError(f"{address} does not tell its topics or offsets")
        own = {config.get("brokerName", ""), config.get("brokerClusterName", "")}
        found: list[UnreadMessages] = []
        for topic, settings_of_topic in topics.items():
            if is_of_broker(topic, own) or topic in ignored:
                continue
            extents = await _extents(asker, topic, int(settings_of_topic.get("readQueueNums", 0)))
            found += [item for item in _of_topic(topic, extents, offsets) if item.group not in ignored]
        if _DELAYED in topics and _DELAYED not in ignored:
            delivered = table(_DELAY_OFFSETS, known.get(_DELAY_OFFSETS, b"")) or {}
            extents = await _extents(asker, _DELAYED, int(topics[_DELAYED].get("readQueueNums", 0)))
            found += _of_delayed(extents, delivered)
        waiting = int(runtime.get("timerCongestNum", "0"))
        found += [UnreadMessages(_TIMED, "", waiting)] if waiting > 0 and _TIMED not in ignored else []
    finally:
        asker.close()
    return sorted((item for item in found if item.messages), key=lambda item: (-item.messages, item.topic))


def is_of_broker(topic: str, own: Collection[str]) -> bool:
    """Tell whether a broker has this topic for itself; `own` are its own name and its cluster's."""
    return topic in _OF_BROKERS or topic in own or topic.startswith(_PREFIX) or topic.endswith(_SUFFIX)


Extents = Mapping[int, tuple[int, int]]
"""The oldest offset and the next one of each queue."""


def _of_topic(topic: str, extents: Extents, offsets: Mapping[str, Any]) -> Iterator[UnreadMessages]:
    stored = sum(end - begin for begin, end in extents.values())
    if not stored:
        return
    readers = {
        group: queues
        for (its_topic, _, group), queues in (
            (name.partition("@"), queues) for name, queues in offsets.items()
        )
        if its_topic == topic and group
    }
    if not readers:
        # Half of a transaction without an offset was never looked at: it is undecided too.
        yield UnreadMessages(topic, "", stored)
    for group, queues in sorted(readers.items()):
        behind = sum(end - max(begin, queues.get(str(queue), 0)) for queue, (begin, end) in extents.items())
        yield UnreadMessages(topic, group, max(0, behind))


def _of_delayed(extents: Extents, delivered: Mapping[str, Any]) -> Iterator[UnreadMessages]:
    """Levels are counted from one, queues from zero."""
    waiting = sum(
        max(0, end - max(begin, int(delivered.get(str(queue + 1), 0))))
        for queue, (begin, end) in extents.items()
    )
    yield UnreadMessages(_DELAYED, "", waiting)


async def _extents(asker: Asker, topic: str, queues: int) -> dict[int, tuple[int, int]]:
    found = {}
    for queue in range(queues):
        header = GetOffsetRequestHeader(topic, queue)
        end = GetOffsetResponseHeader.from_ext(
            (await _patiently(asker, RequestCode.GET_MAX_OFFSET, header)).ext
        )
        if end.offset <= 0:
            continue
        begin = GetOffsetResponseHeader.from_ext(
            (await _patiently(asker, RequestCode.GET_MIN_OFFSET, header)).ext
        )
        found[queue] = (max(0, begin.offset), end.offset)
    return found


async def _patiently(asker: Asker, code: int, header: Header | None = None) -> RemotingCommand:
    for tried in range(1, TRIES_MAX + 1):
        try:
            return await asker.ask(code, header)
        except AskError as error:
            if error.code is not None or tried == TRIES_MAX:
                raise
    raise AskError(f"{code} was never asked")
