"""Of the end of a container's log, the line that says why it ended, the same after each restart."""

import pytest

from rocketmq_operator.plan.pods.exit_reason import EXIT_MESSAGE_LENGTH_MAX, exit_message
from testkit.worlds.operator import pod_templates

JAVA = """2026-11-25 03:10:{0:02d} INFO main - start
java.lang.IllegalArgumentException: invalid brokerIP1
\tat org.apache.rocketmq.broker.BrokerStartup.main(BrokerStartup.java:60)
Caused by: java.net.UnknownHostException: nowhere@{0:08x}
\tat java.base/java.net.InetAddress.get(InetAddress.java:1)
\t... 5 more
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("\n \n", ""),
        ("one\ntwo\n", "two"),
        (JAVA.format(7), "Caused by: java.net.UnknownHostException: nowhere"),
        (
            '{"ts": "2026-11-25T03:10:07", "level": "error", "message": "port 9876 is in use"}\n',
            "port 9876 is in use",
        ),
        (
            '{"message": "stopped", '
            '"exception": "Traceback\\n  File \\"a.py\\"\\nOSError: [Errno 28] No space left"}\n',
            "stopped: OSError: [Errno 28] No space left",
        ),
        ("[0.123s][error][gc] Failed to reserve memory\nEnd.\n", "[error][gc] Failed to reserve memory"),
        ("2026-11-25T03:10:07.123Z ERROR \x1b[31mcannot bind\x1b[0m\r\n", "ERROR cannot bind"),
        ("x" * 4000, "x" * EXIT_MESSAGE_LENGTH_MAX),
        ('{"cut off', '{"cut off'),
        ("[1]\n{}\n", "{}"),
    ],
)
def test_the_line_that_names_the_error(log: str, words: str) -> None:
    assert exit_message(log) == words


def test_each_restart_gives_the_same_words() -> None:
    assert len({exit_message(JAVA.format(second)) for second in range(9)}) == 1


def test_every_container_leaves_its_last_words_in_the_status() -> None:
    specs = [template["spec"] for template in pod_templates().values()]
    containers = [one for spec in specs for one in (*spec.get("initContainers", []), *spec["containers"])]
    assert len(containers) >= 7
    assert {one["terminationMessagePolicy"] for one in containers} == {"FallbackToLogsOnError"}
