"""The process: joins the controllers' word and this node's connections.

    event streams          an election that a majority of the controllers tells
    the controllers        asked (1006) where each member's process is, every `poll_interval_ms`; at each
                           election; and again before each batch of resets but those of the first look
    this node's flows      looked at every `PASS_S` for `act_ms` after a replacement, on a thread of their own
    heartbeats             tell the controllers which members live on this node (`witness`)

It keeps nothing on disk and needs nothing of Kubernetes: whether an address leads elsewhere from this node,
it finds out by dialling it. `replaced` and `flows` decide; this module carries out.

It logs one line for each replaced master, for each batch of resets, and for each election after which nothing
is reset.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from controller_core.channel import ChannelError
from controller_core.channel.asking import AskError
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.address import HostPort
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.http_server import HttpServer
from ha_sidecar.common.questions import ask_groups
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.config import NodeAgentConfig
from ha_sidecar.node_agent.elections import Election
from ha_sidecar.node_agent.event_streams import EventStreams
from ha_sidecar.node_agent.flows import Flow, FlowChoice, FlowKind, Visibility, visibility
from ha_sidecar.node_agent.metrics import NodeAgentMetrics
from ha_sidecar.node_agent.replaced import ConfirmedGroup, ProcessBook, Refusal, Replaced, group_view, judge
from ha_sidecar.node_agent.resetting import NodeFlows, ResetCounts
from ha_sidecar.node_agent.witness import NodeWitness

PASS_S: Final = 0.02
PASS_LATER_S: Final = 0.2
LIST_S: Final = 0.2
"""Between two lists of this node's connections, which cost more than a look where an address leads."""
HURRY_S: Final = 4.0
"""How long passes follow each other fast: longer than an address takes to move."""
JUDGE_S: Final = 3.0
"""For how long a refusal may be early: a new leader may not know the silent members yet."""
ASK_AGAIN_S: Final = 0.05
CHECK_S: Final = 30.0
"""Between two looks whether conntrack knows this node's connections."""
CHECK_FIRST_S: Final = 1.0
"""The same while no member is known."""
DIALLED_MAX: Final = 3
"""How many addresses of Services are dialled for a look."""
_TROUBLE: Final = (ControllersUnavailableError, AskError, RemotingProtocolError, ChannelError)
_PASSING: Final = frozenset({Refusal.STALE, Refusal.LIVES})

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Watch:
    """What the agent knows while it resets the connections of one replaced master.

    Attributes:
        election: how the master was replaced.
        replaced: the verdict of the controllers.
        is_judged: whether they gave it just now.
        choice: which connections were tried.
        flows: the connections to the hosts of the master when they were listed.
        listed_s: when they were, on the monotonic clock.
    """

    election: Election
    replaced: Replaced
    choice: FlowChoice
    is_judged: bool = True
    flows: list[Flow] = field(default_factory=list)
    listed_s: float = float("-inf")


class FlowTable(Protocol):
    """What the agent needs of a node's connections; see `resetting.NodeFlows`."""

    def flows_to(self, hosts: Collection[str]) -> list[Flow]:
        """Return the connections that dialled one of some addresses."""
        ...

    def leads_to(self, address: HostPort) -> str | None:
        """Return the host that a new connection to an address reaches; None if unknown."""
        ...

    def hosts_here(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return those of some addresses that belong to this node."""
        ...

    def reset(self, kind: FlowKind, flows: Iterable[Flow]) -> ResetCounts:
        """Reset flows, and return how many ended."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class NodeAgent:
    """One node's agent.

    Attributes:
        metrics: its metrics.
    """

    def __init__(
        self,
        config: NodeAgentConfig,
        open_flows: Callable[[], FlowTable] = NodeFlows,
        judge_s: float = JUDGE_S,
    ) -> None:
        """Take the settings, what opens this node's connections, and for how long a refusal may be early."""
        self.metrics: Final = NodeAgentMetrics()
        self._config: Final = config
        self._open_flows: Final = open_flows
        self._controllers: Final = Controllers(config.controllers)
        self._streams: Final = EventStreams(config.controllers_http, self._on_election, self.metrics)
        self._book: Final = ProcessBook()
        self._witness: Final = NodeWitness(
            self._controllers,
            self._hosts_here,
            self.metrics,
            config.heartbeat_interval_ms / 1000,
            config.token_file,
        )
        self._judge_s: Final = judge_s
        self._work: Final[set[asyncio.Task[None]]] = set()
        self._thread: Final = ThreadPoolExecutor(1, "flows")
        events = EventLog("", "", process="node-agent")
        self._http: Final = HttpServer(self.metrics.text, self._ready, events)
        self._visible: str | None = None

    async def run(self) -> None:
        """Serve until cancelled; raise `OSError` if the port or the kernel's sockets cannot be had."""
        async with self._opened() as flows:
            self._flows: FlowTable = flows
            await self._http.start(*self._config.http)
            self._controllers.start()
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._streams.run())
                    tasks.create_task(self._poll())
                    tasks.create_task(self._check_conntrack())
                    tasks.create_task(self._witness.run())
            finally:
                for task in self._work:
                    task.cancel()
                await asyncio.gather(*self._work, return_exceptions=True)
                await self._controllers.stop()
                await self._http.stop()

    def known_process(self, group: GroupName, member_id: int) -> HostPort | None:
        """Return the last confirmed address of a member's process; None if unknown."""
        return self._book.process(group, member_id)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[FlowTable]:
        flows = await self._on_thread(self._open_flows)
        try:
            yield flows
        finally:
            await self._on_thread(flows.close)
            self._thread.shutdown(wait=False)

    def _ready(self) -> tuple[bool, str]:
        is_open, of = self._streams.open_count, len(self._config.controllers_http)
        return 2 * is_open > of, f"{is_open} of {of} event streams are open"

    async def _poll(self) -> None:
        while True:
            await self._learn(self._streams.groups())
            try:
                await self._witness.learn(self._book.living())
            except OSError as error:
                _log.warning("members on this node are unknown: %s", error)
            await asyncio.sleep(self._config.poll_interval_ms / 1000)

    async def _learn(self, groups: Collection[GroupName]) -> None:
        """Learn groups by one question for each cluster; by one for each group if that is refused."""
        for cluster in sorted({group.cluster for group in groups}):
            names = [group.broker_name for group in groups if group.cluster == cluster]
            try:
                await self._views(cluster, names)
            except AskError:
                for name in names:
                    with contextlib.suppress(*_TROUBLE):
                        await self._views(cluster, [name])
            except _TROUBLE as error:
                _log.debug("asked about all groups of %s: %s", cluster, error)

    async def _views(self, cluster: str, names: Collection[str]) -> Mapping[GroupName, ConfirmedGroup]:
        """Ask for groups, and learn what a majority vouches for; unknown groups are left out."""
        infos = await ask_groups(self._controllers, cluster, names)
        views = {
            (key := GroupName(cluster, name)): group_view(key, info)
            for name, info in infos.items()
            if name in names
        }
        for view in views.values():
            self._book.learn(view)
        return views

    def _on_election(self, election: Election) -> None:
        task = asyncio.ensure_future(self._replace(election))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _replace(self, election: Election) -> None:
        heard_s = _now_s()
        verdict = await self._verdict_in_time(election, heard_s + self._judge_s)
        where = f"group {election.group}, epoch {election.epoch}, member {election.old_id}"
        if not isinstance(verdict, Replaced):
            if verdict is not None:
                self.metrics.count_refusal(verdict)
            _log.info(
                "%s was replaced (%s): nothing is reset: %s", where, election.cause, verdict or "no answer"
            )
            return
        self.metrics.count_replaced()
        _log.info(
            "%s was replaced (%s) at %s, process %s",
            where,
            election.cause,
            verdict.announced,
            verdict.process,
        )
        watch = Watch(election, verdict, FlowChoice(verdict, self._config.ha_ports))
        while (passed_s := _now_s() - heard_s) < self._config.act_ms / 1000:
            if not await self._pass(watch, heard_s):
                return
            await asyncio.sleep(PASS_S if passed_s < HURRY_S else PASS_LATER_S)

    async def _verdict_in_time(self, election: Election, until_s: float) -> Replaced | Refusal | None:
        """Judge an election, and ask again while a refusal may be early.

        None if the controllers do not answer.
        """
        while True:
            verdict = await self._verdict(election)
            if (verdict is not None and verdict not in _PASSING) or _now_s() >= until_s:
                return verdict
            await asyncio.sleep(ASK_AGAIN_S)

    async def _verdict(self, election: Election) -> Replaced | Refusal | None:
        if not election.is_for_silence:
            return Refusal.NOT_FOR_SILENCE
        try:
            key = election.group
            view = (await self._views(key.cluster, [key.broker_name])).get(key)
        except _TROUBLE as error:
            _log.debug("asked about %s: %s", election.group, error)
            return None
        return Refusal.STALE if view is None else judge(election, view, self._book)

    async def _pass(self, watch: Watch, heard_s: float) -> bool:
        """Look at this node's flows once, and reset those that are due; return whether to go on."""
        replaced, is_judged = watch.replaced, watch.is_judged
        watch.is_judged = False
        try:
            chosen = await self._on_thread(partial(self._choose, watch))
            if not chosen:
                return True
            if not is_judged and (verdict := await self._verdict(watch.election)) != replaced:
                return self._goes_on(replaced, verdict)
            for kind, flows in chosen.items():
                watch.choice.note_tried(flows, time.monotonic())
                counts = await self._on_thread(partial(self._flows.reset, kind, flows))
                self._note(replaced, kind, counts, _now_s() - heard_s)
        except OSError as error:
            self.metrics.failed_passes.inc()
            _log.warning("group %s: connections cannot be reset: %s", replaced.group, error)
            await asyncio.sleep(PASS_LATER_S)
        return True

    def _goes_on(self, replaced: Replaced, verdict: Replaced | Refusal | None) -> bool:
        """Note that the controllers no longer give a verdict; return whether they may give it again."""
        if not isinstance(verdict, Refusal):
            return True
        self.metrics.count_refusal(verdict)
        _log.info("group %s, epoch %d: no more resets: %s", replaced.group, replaced.epoch, verdict)
        return False

    def _choose(self, watch: Watch) -> Mapping[FlowKind, tuple[Flow, ...]]:
        if time.monotonic() - watch.listed_s >= LIST_S:
            self._list(watch)
        leads: dict[HostPort, str] = {}
        for address in watch.choice.addresses_to_probe(watch.flows):
            host = self._flows.leads_to(address)
            if host is not None:
                leads[address] = host
        chosen = watch.choice.choose(watch.flows, leads, time.monotonic())
        if FlowKind.CLIENT in chosen:
            # Since the list was made clients may have dialled the address where it led before.
            self._list(watch)
            chosen = watch.choice.choose(watch.flows, leads, time.monotonic())
        return chosen

    def _list(self, watch: Watch) -> None:
        watch.listed_s = time.monotonic()
        watch.flows = self._flows.flows_to(watch.replaced.movable | {watch.replaced.process[0]})

    def _note(self, replaced: Replaced, kind: FlowKind, counts: ResetCounts, after_s: float) -> None:
        self.metrics.count_resets(kind, counts, after_s)
        _log.info(
            "group %s, epoch %d: %s connections to member %d: %d reset, %d destroyed, %d without an answer, "
            "%d of other nodes, after %.0f ms",
            replaced.group,
            replaced.epoch,
            kind,
            replaced.id,
            counts.forged,
            counts.destroyed,
            counts.unanswered,
            counts.foreign,
            after_s * 1000,
        )

    async def _check_conntrack(self) -> None:
        """Say which of this node's connections conntrack knows, when that changes."""
        while True:
            found = await self._visibility()
            if found is not None:
                self.metrics.conntrack.set(found == Visibility.ALL)
                if found != self._visible:
                    _log.log(logging.INFO if found == Visibility.ALL else logging.WARNING, "%s", found)
                self._visible = found
            await asyncio.sleep(CHECK_S if any(self._book.living()) else CHECK_FIRST_S)

    async def _visibility(self) -> str | None:
        """Return which connections conntrack knows, or why it cannot be read; None if unknown."""
        services = self._book.services()[:DIALLED_MAX]
        try:
            found = {address[0]: await self._leads_to(address) for address in services}
            hosts = {address[0]: await self._leads_to(address) for address in await self._controllers_at()}
        except OSError as error:
            return f"conntrack cannot be read, so nothing can be reset on this node: {error}"
        return visibility(found, hosts)

    async def _controllers_at(self) -> list[HostPort]:
        """Return an address of the first controller that has one."""
        for address in self._config.controllers:
            with contextlib.suppress(OSError):
                found = await asyncio.get_running_loop().getaddrinfo(*address)
                return [(str(found[0][4][0]), address[1])]
        return []

    async def _leads_to(self, address: HostPort) -> str | None:
        return await self._on_thread(partial(self._flows.leads_to, address))

    async def _hosts_here(self, hosts: Iterable[str]) -> frozenset[str]:
        return await self._on_thread(partial(self._flows.hosts_here, tuple(hosts)))

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
