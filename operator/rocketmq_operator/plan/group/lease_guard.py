"""The guard of a broker's write lease: a part of the broker's start script.

It is process 1 of the broker's container: the kernel ends all processes of the container with it, and no
other process of the container can stop it. It reads the lease from the companion, whose module `leasing` has
the protocol, and stops the broker's process group when the lease has run out. A stopped process answers no
client, whatever it was doing; a broker that is asked for anything may be too busy to do it.

    lease                                               the broker
    `free`, or no word yet                              runs
    `until` a time that has not come                    runs; is continued if it was stopped
    `until` a time that has passed                      is stopped (SIGSTOP), again in each round
    stopped, and `replaced`                             ends (SIGKILL); Kubernetes starts it again as a slave
    stopped, and the pod is to end                      ends (SIGKILL)

Why SIGSTOP first: a companion that had no CPU for a moment costs a pause and not a broker. Why not
`minInSyncReplicas`, as the companion's fence: a broker that is busy or frozen takes it too late.

It needs bash, for timed reads and connections. Without bash the broker starts unguarded, and says so.

Times are those of `/proc/uptime`, in hundredths of a second: a clock that containers share, and that goes on
while a machine is suspended.
"""

from typing import Final

LOOK_S: Final = 0.05
"""How often it looks at the clock; part of the lease's margin (`ha_sidecar.decisions.write_lease`)."""
TAKE_BASH: Final = """if [ -z "${BASH_VERSION:-}" ] && [ -f "$0" ] && command -v bash >/dev/null; then
  exec bash "$0"
fi
"""
"""The first command of a script with a guard."""
OWN_GROUP: Final = 'if [ -n "${BASH_VERSION:-}" ]; then set -m; fi\n'
"""Comes before the command that starts the broker, so that all its processes have one group of their own."""


def lease_guard(host: str, port: int) -> str:
    """Return the part of the script that comes after the command that starts the broker.

    It ends when the broker has ended. It needs the function `stop`, and leaves `$!` as it was.

    Args:
        host: the companion's address.
        port: its HTTP port.
    """
    return f"""hold_lease() {{
  broker=$!
  until='' mark='' stopped='' ending='' connected=''
  trap 'ending=1; stop' TERM INT
  while kill -0 "$broker" 2>/dev/null; do
    if [ -z "$connected" ]; then
      if {{ command exec 3<>"/dev/tcp/{host}/{port}"; }} 2>/dev/null; then
        connected=1
        printf 'GET /v1/lease?was=%s HTTP/1.0\\r\\n\\r\\n' "$mark" >&3 2>/dev/null || connected=''
      else
        sleep {LOOK_S}
      fi
    elif read -r -t {LOOK_S} word value rest <&3; then
      case $word in
        free) until='' mark='' ;;
        until) until=$value mark=$rest ;;
        replaced) if [ -n "$stopped" ]; then kill -KILL -- "-$broker"; fi ;;
      esac
    elif [ $? -le 128 ]; then
      exec 3>&-
      connected=''
    fi
    read -r now rest </proc/uptime
    now=${{now%.*}}${{now#*.}}
    if [ -n "$until" ] && [ "$now" -ge "$until" ]; then
      kill -STOP -- "-$broker" 2>/dev/null || :
      if [ -z "$stopped" ]; then echo "lease: it has run out, the broker stands still"; fi
      stopped=1
      if [ -n "$ending" ]; then kill -KILL -- "-$broker" 2>/dev/null || :; fi
    elif [ -n "$stopped" ]; then
      kill -CONT -- "-$broker" 2>/dev/null || :
      echo "lease: the broker goes on"
      stopped=''
    fi
  done
}}
if [ -n "${{BASH_VERSION:-}}" ]; then
  set +m
  hold_lease
else
  echo "lease: no bash in this image, the broker is not guarded" >&2
fi
"""
