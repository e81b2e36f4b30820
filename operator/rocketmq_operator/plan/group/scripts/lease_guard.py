"""The guard of a broker's write lease: a part of the broker's start script.

It is process 1 of the broker's container: the kernel ends all processes of the container with it, and no
other process of the container can stop it. It asks for the lease at the companion, whose module `leasing` has
the protocol, and stops the broker's process group when the lease has run out. A stopped process answers no
client, whatever it was doing; a broker may be too busy to carry out a request.

    lease                                               the broker
    `free`, or no word yet                              runs
    `until` a time that has not come                    runs; is continued if it was stopped
    `until` a time that has passed                      is stopped (SIGSTOP), again in each round
    stopped, and `replaced`                             ends (SIGKILL); Kubernetes starts it again as a slave
    stopped, and the pod will end                       ends (SIGKILL)

Why SIGSTOP first: a companion that had no CPU for a moment costs a pause and not a broker. Why not
`minInSyncReplicas`, as the companion's fence: a broker that is busy or frozen takes it too late.

It needs bash, for timed reads and connections. Without bash the broker starts unguarded, and says so.

Times are those of its own `/proc/uptime`, in hundredths of a second, which goes on while a machine is
suspended. The companion answers in the same clock: where lxcfs is in use, each container has another.
"""

from typing import Final

LOOK_S: Final = 0.05
"""How often it looks at the clock; part of the lease's margin (`ha_sidecar.decisions.write_lease`)."""
ASK_AGAIN_LOOKS: Final = 20
"""After so many looks without an answer it asks again, and then after twice as many.

A read of bash whose time ends as it takes the last byte of a line loses that line. A companion that is frozen
answers all questions when it goes on, so they must be few.
"""
TAKE_BASH: Final = """if [ -z "${BASH_VERSION:-}" ] && [ -f "$0" ] && command -v bash >/dev/null; then
  exec bash "$0"
fi
"""
"""The first command of a script with a guard."""
OWN_GROUP: Final = 'if [ -n "${BASH_VERSION:-}" ]; then set -m; fi\n'
"""Comes before the command that starts the broker, so that all its processes have one group of their own."""


def lease_guard(port: int) -> str:
    """Return the part of the script that comes after the command that starts the broker.

    It ends when the broker has ended. It needs the function `stop`, and leaves `$!` as it was.

    Args:
        port: the companion's port for it.
    """
    return f"""hold_lease() {{
  broker=$!
  until='' mark='' stopped='' ending='' connected='' asked='' looks={ASK_AGAIN_LOOKS}
  trap '' PIPE
  trap 'ending=1; stop' TERM INT
  while kill -0 "$broker" 2>/dev/null; do
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
    if [ -z "$connected" ]; then
      asked=''
      if {{ command exec 3<>"/dev/tcp/127.0.0.1/{port}"; }} 2>/dev/null; then
        connected=1
      else
        sleep {LOOK_S}
        continue
      fi
    fi
    if [ -z "$asked" ]; then
      if printf '%s %s\\n' "$now" "$mark" 2>/dev/null >&3; then asked=$looks; else connected=''; continue; fi
    fi
    if read -r -t {LOOK_S} word value rest <&3; then
      asked='' looks={ASK_AGAIN_LOOKS}
      case $word in
        free) until='' mark='' ;;
        until) until=$value mark=$rest ;;
        replaced) if [ -n "$stopped" ]; then kill -KILL -- "-$broker" 2>/dev/null || :; fi ;;
      esac
      # Nothing comes before the next question: a pause without another process.
      read -r -t {LOOK_S} rest <&3 || [ $? -gt 128 ] || connected=''
    elif [ $? -le 128 ]; then
      connected=''
    else
      asked=$((asked - 1))
      if [ "$asked" -eq 0 ]; then asked='' looks=$((looks * 2)); fi
    fi
    if [ -z "$connected" ]; then exec 3>&-; fi
  done
}}
if [ -n "${{BASH_VERSION:-}}" ]; then
  set +m
  hold_lease
else
  echo "lease: no bash in this image, the broker is not guarded" >&2
fi
"""
