"""Requests and answers a second over one loopback connection, both ends on one core.

Run it: `python tests/bench/bench_channel.py [--seconds 3] [--in-flight 64]`. It prints one line: rate, and
the median and 99th percentile of the time from call to answer.
"""

import argparse
import asyncio
import sys
import time

from controller_core.channel import Connection, connect, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand

REQUEST = RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "broker-a"})
BODY = b'{"syncStateSet":[1,2,3],"syncStateSetEpoch":7}'
EXT = {"masterBrokerId": "1", "masterAddress": "127.0.0.1:10911", "masterEpoch": "7"}


def answer(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Answer as a controller does, without looking anything up."""
    return RemotingCommand.response_to(request, ResponseCode.SUCCESS, EXT, body=BODY)


def adopt(connection: Connection) -> None:
    """Give an accepted connection its handler."""
    connection.on_request = answer


async def ask(connection: Connection, end_s: float, latencies_s: list[float]) -> None:
    """Call again and again until the time is over."""
    while (begin_s := time.perf_counter()) < end_s:
        await connection.call(REQUEST, 3.0)
        latencies_s.append(time.perf_counter() - begin_s)


async def run(seconds: float, in_flight: int) -> None:
    """Measure once and print."""
    server = await serve("127.0.0.1", 0, adopt)
    connection = await connect("127.0.0.1", server.port, 3.0)
    latencies_s: list[float] = []
    begin_s = time.perf_counter()
    await asyncio.gather(*(ask(connection, begin_s + seconds, latencies_s) for _ in range(in_flight)))
    elapsed_s = time.perf_counter() - begin_s
    connection.close()
    await server.close()
    latencies_s.sort()
    count = len(latencies_s)
    sys.stdout.write(
        f"{count / elapsed_s:,.0f} calls/s with {in_flight} in flight; "
        f"p50 {latencies_s[count // 2] * 1e3:.2f} ms, p99 {latencies_s[count * 99 // 100] * 1e3:.2f} ms\n"
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--in-flight", type=int, default=64)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.seconds, arguments.in_flight))


if __name__ == "__main__":
    main()
