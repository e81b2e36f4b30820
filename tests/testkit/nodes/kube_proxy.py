"""Let the kube-proxies of a cluster on this machine translate addresses in another mode.

    python -m testkit.nodes.kube_proxy nftables

A kube-proxy that is started in another mode removes the rules of the former one itself.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from testkit.kube.kubectl import run, until
from testkit.nodes.service_rules import PROXY_MODES, ProxyMode
from testkit.nodes.stack_processes import command, parts, start_anew

_NAME: Final = "kube-proxy"
_OPTION: Final = "--proxy-mode="
_WRITTEN_WITHIN_S: Final = 30.0
_SHOWN: Final = {
    "iptables": (("iptables", "-t", "nat", "-S", "KUBE-SERVICES"), b"-j KUBE-SVC-"),
    "nftables": (("nft", "list", "map", "ip", "kube-proxy", "service-ips"), b"goto service-"),
}
"""By mode, a command that prints a node's rules, and what it prints when there are some."""


def mode() -> ProxyMode:
    """Return the mode of the cluster's kube-proxies."""
    words = command(parts(_NAME)[0])
    return next(one for one in PROXY_MODES if f"{_OPTION}{one}" in words)


@asynccontextmanager
async def proxy_mode(wanted: ProxyMode) -> AsyncIterator[None]:
    """Let all kube-proxies run in a mode for as long as the context lasts."""
    before = mode()
    await set_mode(wanted)
    try:
        yield
    finally:
        await set_mode(before)


async def set_mode(wanted: ProxyMode) -> None:
    """Start each kube-proxy that has another mode again, and wait until all have written their rules.

    Raises:
        KubeError: one did not end, or wrote no rules.
    """
    for part in parts(_NAME):
        in_network = ["nsenter", f"--net=/run/netns/kube-node{part.removeprefix(_NAME)}"]
        words = command(part)
        if f"{_OPTION}{wanted}" not in words:
            changed = [f"{_OPTION}{wanted}" if word.startswith(_OPTION) else word for word in words]
            await start_anew(part, [*in_network, *changed])
        listing, expected = _SHOWN[wanted]

        async def written(words: Sequence[str] = (*in_network, *listing), expected: bytes = expected) -> bool:
            return expected in await run(words)

        await until(f"{part} has written its rules", written, _WRITTEN_WITHIN_S)


def main(arguments: Sequence[str]) -> int:
    """Set the mode that is named; return the exit status."""
    named = " ".join(arguments)
    modes: dict[str, ProxyMode] = {one: one for one in PROXY_MODES}
    wanted = modes.get(named)
    if wanted is None:
        sys.stderr.write(f"invalid mode {named!r} (expected {' or '.join(PROXY_MODES)})\n")
        return 2
    asyncio.run(set_mode(wanted))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
