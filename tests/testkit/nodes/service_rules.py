"""The rules that kube-proxy writes for a Service, in the forms of its modes iptables and nftables.

Each text is what kube-proxy gives to `iptables-restore --noflush` or `nft -f -`: the chains of all Services
once, and those of one Service whenever its endpoint changes. Names of chains lack kube-proxy's hashes.

Source: kube-proxy 1.34, pkg/proxy/iptables/proxier_test.go and pkg/proxy/nftables/proxier_test.go.
"""

from typing import Final, Literal

Version = Literal["IPv4", "IPv6"]
ProxyMode = Literal["iptables", "nftables"]
PROXY_MODES: Final[tuple[ProxyMode, ...]] = ("iptables", "nftables")
PODS: Final = {"IPv4": "10.244.0.0/16", "IPv6": "fd00::/32"}
"""kube-proxy's cluster CIDR: the node's address replaces a source outside it."""
_PROGRAMS: Final = {
    ("iptables", "IPv4"): "iptables-restore --noflush",
    ("iptables", "IPv6"): "ip6tables-restore --noflush",
    ("nftables", "IPv4"): "nft -f -",
    ("nftables", "IPv6"): "nft -f -",
}
_IPTABLES: Final = """\
*filter
:KUBE-FORWARD - [0:0]
-A FORWARD -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
COMMIT
"""
_IPTABLES_SERVICE: Final = """\
*nat
:KUBE-SVC-{name} - [0:0]
:KUBE-SEP-{name} - [0:0]
-A KUBE-SVC-{name} ! -s {pods} -d {service} -p tcp -m tcp --dport {port} -j KUBE-MARK-MASQ
-A KUBE-SVC-{name} -j KUBE-SEP-{name}
-A KUBE-SEP-{name} -s {host} -j KUBE-MARK-MASQ
-A KUBE-SEP-{name} -p tcp -m tcp -j DNAT --to-destination {end}
COMMIT
"""
_IPTABLES_JUMP: Final = """\
*nat
-A KUBE-SERVICES -d {service} -p tcp -m tcp --dport {port} -j KUBE-SVC-{name}
COMMIT
"""
_NFTABLES: Final = """\
add table {family} kube-proxy
add set {family} kube-proxy cluster-ips {{ type {address} ; }}
add map {family} kube-proxy no-endpoint-services {{ type {address} . inet_proto . inet_service : verdict ; }}
add map {family} kube-proxy service-ips {{ type {address} . inet_proto . inet_service : verdict ; }}
add chain {family} kube-proxy cluster-ips-check
add chain {family} kube-proxy filter-forward {{ type filter hook forward priority 0 ; }}
add chain {family} kube-proxy filter-input {{ type filter hook input priority 0 ; }}
add chain {family} kube-proxy filter-output {{ type filter hook output priority 0 ; }}
add chain {family} kube-proxy mark-for-masquerade
add chain {family} kube-proxy masquerading
add chain {family} kube-proxy nat-output {{ type nat hook output priority -100 ; }}
add chain {family} kube-proxy nat-postrouting {{ type nat hook postrouting priority 100 ; }}
add chain {family} kube-proxy nat-prerouting {{ type nat hook prerouting priority -100 ; }}
add chain {family} kube-proxy services
add chain {family} kube-proxy service-endpoints-check
add rule {family} kube-proxy cluster-ips-check {family} daddr @cluster-ips reject
add rule {family} kube-proxy filter-forward ct state new jump service-endpoints-check
add rule {family} kube-proxy filter-forward ct state new jump cluster-ips-check
add rule {family} kube-proxy filter-input ct state new jump service-endpoints-check
add rule {family} kube-proxy filter-output ct state new jump service-endpoints-check
add rule {family} kube-proxy filter-output ct state new jump cluster-ips-check
add rule {family} kube-proxy mark-for-masquerade mark set mark or 0x4000
add rule {family} kube-proxy masquerading mark and 0x4000 == 0 return
add rule {family} kube-proxy masquerading mark set mark xor 0x4000
add rule {family} kube-proxy masquerading masquerade fully-random
add rule {family} kube-proxy nat-output jump services
add rule {family} kube-proxy nat-postrouting jump masquerading
add rule {family} kube-proxy nat-prerouting jump services
add rule {family} kube-proxy services {family} daddr . meta l4proto . th dport vmap @service-ips
add rule {family} kube-proxy service-endpoints-check \
{family} daddr . meta l4proto . th dport vmap @no-endpoint-services
"""
_NFTABLES_SERVICE: Final = """\
add chain {family} kube-proxy service-{name}
add chain {family} kube-proxy endpoint-{name}-{place}
flush chain {family} kube-proxy service-{name}
flush chain {family} kube-proxy endpoint-{name}-{place}
add rule {family} kube-proxy endpoint-{name}-{place} {family} saddr {host} jump mark-for-masquerade
add rule {family} kube-proxy endpoint-{name}-{place} meta l4proto tcp dnat to {end}
add rule {family} kube-proxy service-{name} \
{family} daddr {service} {family} saddr != {pods} jump mark-for-masquerade
add rule {family} kube-proxy service-{name} numgen random mod 1 vmap {{ 0 : goto endpoint-{name}-{place} }}
"""
_NFTABLES_JUMP: Final = """\
add element {family} kube-proxy cluster-ips {{ {service} }}
add element {family} kube-proxy service-ips {{ {service} . tcp . {port} : goto service-{name} }}
"""


def loader(mode: ProxyMode, version: Version) -> str:
    """Return the command that reads rules from its standard input."""
    return _PROGRAMS[mode, version]


def programs(mode: ProxyMode) -> tuple[str, ...]:
    """Return the programs that a mode needs."""
    return tuple(sorted({command.split()[0] for (one, _), command in _PROGRAMS.items() if one == mode}))


def base_rules(mode: ProxyMode, version: Version) -> str:
    """Return the rules of all Services."""
    return _IPTABLES if mode == "iptables" else _NFTABLES.format(**_family(version))


def service_rules(
    mode: ProxyMode,
    version: Version,
    name: str,
    service: str,
    port: int,
    place: str,
    host: str,
    *,
    is_new: bool,
) -> str:
    """Return the rules that lead a port of a Service to a pod.

    Args:
        mode: of kube-proxy.
        version: of the addresses.
        name: of the Service, for the names of chains.
        service: its address.
        port: its port, and the pod's.
        place: of the pod, for the names of chains.
        host: the pod's address.
        is_new: no rules lead to this Service yet.
    """
    texts = {
        "iptables": (_IPTABLES_SERVICE, _IPTABLES_JUMP),
        "nftables": (_NFTABLES_SERVICE, _NFTABLES_JUMP),
    }[mode]
    end = f"[{host}]:{port}" if version == "IPv6" else f"{host}:{port}"
    values = {"name": name, "service": service, "port": port, "place": place, "host": host, "end": end}
    return "".join(texts if is_new else texts[:1]).format(**values, pods=PODS[version], **_family(version))


def _family(version: Version) -> dict[str, str]:
    four = {"family": "ip", "address": "ipv4_addr"}
    return four if version == "IPv4" else {"family": "ip6", "address": "ipv6_addr"}
