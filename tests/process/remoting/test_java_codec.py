"""Our frames in RocketMQ's own decoder, and its frames in ours, for three releases.

Every command makes the whole round: we write it, Java reads it and says what it understood, Java writes it
again, we read that. 5.2.0 writes JSON with fastjson 1, the others with fastjson 2.
"""

import random
import subprocess
from pathlib import Path

import pytest

import testkit
from controller_core.remoting.codes import LanguageCode, SerializeType
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from testkit.rocketmq.jars import jars

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PROGRAM = Path(testkit.__file__).parent / "java" / "RemotingCodec.java"
COMMANDS_PER_TYPE = 300
JAVA_TIMEOUT_S = 90.0
TEXTS = [
    "b",
    "broker-a",
    "中文 Grüße",
    "\x01k\x02v",
    "\t\n\r\"\\/'<>&",
    "{1:2}",
    "\u2028\U0001f680",
    "null",
    "\x7f\x00",
    "0",
]


# fastjson2 2.0.43 (RocketMQ 5.4.0) refuses a key, though not a value, beyond the Basic Multilingual Plane.
KEYS = [text for text in TEXTS if max(text) < "\U00010000"]
# 5.2.0 does not know the last language yet and reads it as null.
LANGUAGES = [language for language in LanguageCode if language is not LanguageCode.NODE_JS]


def some_commands(serialize_type: SerializeType) -> list[RemotingCommand]:
    """Draw commands whose texts are those that JSON writers disagree about."""
    draw = random.Random(f"{serialize_type}")  # a fixed seed: a failure repeats
    is_json = serialize_type is SerializeType.JSON
    bits = 31 if is_json else 15
    return [
        RemotingCommand(
            code=draw.randrange(-(2**bits), 2**bits),
            opaque=draw.randrange(-(2**31), 2**31),
            flag=draw.randrange(4),
            remark=draw.choice([None, *TEXTS, *([""] if is_json else [])]),
            ext=draw.choice(
                [
                    None,
                    *([{}] if is_json else []),
                    dict(zip(draw.sample(KEYS, 3), draw.sample(TEXTS, 3), strict=True)),
                ]
            ),
            body=draw.randbytes(draw.choice([0, 1, 50])),
            language=draw.choice(LANGUAGES),
            version=draw.randrange(2**bits),
            serialize_type=serialize_type,
        )
        for _ in range(COMMANDS_PER_TYPE)
    ]


def described(command: RemotingCommand) -> str:
    """Say what a command is in the words of RemotingCodec.java."""
    ext = "-"
    if command.ext is not None:
        # Java sorts by UTF-16 code unit.
        fields = sorted(command.ext.items(), key=lambda field: field[0].encode("utf-16-be"))
        ext = "".join(f"{key.encode().hex()}={value.encode().hex()};" for key, value in fields)
    remark = "-" if command.remark is None else command.remark.encode().hex()
    return (
        f"{command.code}|{command.opaque}|{command.flag}|{command.language.name}|{command.version}"
        f"|{command.serialize_type.name}|{remark}|{command.body.hex()}|{ext}"
    )


def ask_java(folder: Path, commands: list[RemotingCommand]) -> list[str]:
    """Have Java read and write every command."""
    frames = "".join(f"{encode(command)[4:].hex()}\n" for command in commands)
    finished = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{folder}/*", str(PROGRAM)],
        input=frames,
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=True,
    )
    return finished.stdout.splitlines()


@pytest.mark.parametrize("version", ["5.2.0", "5.4.0", "5.5.0"])
async def test_java_reads_what_we_write_and_we_read_what_java_writes(version: str) -> None:
    commands = some_commands(SerializeType.JSON) + some_commands(SerializeType.ROCKETMQ)
    answers = ask_java(await jars(version), commands)
    assert len(answers) == len(commands)
    for command, answer in zip(commands, answers, strict=True):
        understood, _, written = answer.rpartition(" ")
        assert understood == described(command)
        assert FrameDecoder().feed(bytes.fromhex(written)) == [command]
