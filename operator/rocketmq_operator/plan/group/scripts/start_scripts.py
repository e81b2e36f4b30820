"""The start scripts of a group's brokers and log replicas, which add what only their own pod knows."""

from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.java import JAVA_START, JAVA_STOP, JAVA_WAIT
from rocketmq_operator.plan.common.proxy_config import CONF_FILE
from rocketmq_operator.plan.group.companion import HELD_AFTER_S, has_lease, until_port_is_free
from rocketmq_operator.plan.group.scripts.lease_guard import OWN_GROUP, TAKE_BASH, lease_guard
from rocketmq_operator.plan.pods.logs import java_logs

FIND_ADDRESS: Final = f"""address=
while IFS== read -r name value; do
  if [ "$name" = "$POD_NAME" ]; then address=$value; fi
done <{names.CONFIG_PATH}/addresses
if [ -z "$address" ]; then echo "no address for $POD_NAME yet" >&2; exit 1; fi
"""
_PRIVATE_FILE: Final = """# It gets a password, which no ConfigMap holds: only the broker's user may read it.
rm -f "$config" && (umask 077 && : >"$config")
"""
_CREDENTIALS: Final = f"""username=$(cat {names.CREDENTIALS_PATH}/{names.USERNAME_KEY})
password=$(cat {names.CREDENTIALS_PATH}/{names.PASSWORD_KEY})
printf 'innerClientAuthenticationCredentials={{"accessKey":"%s","secretKey":"%s"}}\\n' \\
  "$username" "$password" >>"$config"
unset username password
"""
_FIND_CONFIG: Final = f"""# Adds to the shared configuration what only this pod knows: its addresses.
set -eu
{FIND_ADDRESS}{until_port_is_free(names.BROKER_PORT)}config={names.SCRATCH_PATH}/broker.conf
"""
_ADD_ADDRESSES: Final = """printf '\\nbrokerIP1=%s\\nbrokerIP2=%s\\n' "$address" "$POD_IP" >>"$config"
"""
FIND_PROGRAM: Final = f"""# With a proxy inside it is mqproxy that starts the broker: \
`mqbroker --enable-proxy` does the same, and takes fewer settings.
if [ -e {names.CONFIG_PATH}/{CONF_FILE} ]; then
  program=mqproxy
  set -- -bc "$config" -pc {names.CONFIG_PATH}/{CONF_FILE}
else
  program=mqbroker
  set -- -c "$config"
fi
{JAVA_STOP}"""
_AFTER_BROKER: Final = f"""{JAVA_WAIT}sleep {HELD_AFTER_S}
{until_port_is_free(names.BROKER_PORT)}exit "$code"
"""
LEARNER_CONF: Final = "learner.conf"
"""The file of a ConfigMap that replaces broker.conf, or replica.conf, for learners."""
LEARNER_START: Final = f"""#!/bin/sh
set -eu
{FIND_ADDRESS}exec ha-sidecar replica -c {names.CONFIG_PATH}/{LEARNER_CONF} \\
  --advertise "$address:{names.REPLICA_PORT}" --ha-advertise "$POD_IP:{names.REPLICA_HA_PORT}"
"""
REPLICA_START: Final = f"""#!/bin/sh
set -eu
{FIND_ADDRESS}exec ha-sidecar replica -c {names.CONFIG_PATH}/replica.conf \\
  --advertise "$address:{names.REPLICA_PORT}" --ha-advertise "$POD_IP:{names.REPLICA_HA_PORT}"
"""


def broker_start(spec: BrokerGroupSpec, *, has_users: bool) -> str:
    """Return the brokers' start script; a broker that has a successor holds a write lease.

    With users the script adds the credentials that the broker signs with.
    """
    run = JAVA_START
    if has_lease(spec):
        run = OWN_GROUP + JAVA_START + lease_guard(names.LEASE_PORT)
    first = TAKE_BASH if has_lease(spec) else ""
    start = configured("broker.conf", spec, has_users=has_users)
    return f"#!/bin/sh\n{first}{start}{FIND_PROGRAM}{run}{_AFTER_BROKER}"


def learner_start(spec: BrokerGroupSpec, *, has_users: bool) -> str:
    """Return the start script of learners that are brokers: without a lease, because none becomes master."""
    start = configured(LEARNER_CONF, spec, has_users=has_users)
    program = f'program=mqbroker\nset -- -c "$config"\n{JAVA_STOP}'
    return f"#!/bin/sh\n{start}{program}{JAVA_START}{_AFTER_BROKER}"


def configured(file: str, spec: BrokerGroupSpec, *, has_users: bool) -> str:
    """Return the part that makes a broker's configuration from a file of the ConfigMap, and sends its log."""
    add = f'cat {names.CONFIG_PATH}/{file} >"$config"\n{_ADD_ADDRESSES}'
    made = _PRIVATE_FILE + add + _CREDENTIALS if has_users else add
    return _FIND_CONFIG + made + java_logs(spec)
