"""How a setting is spelt, parsed and bounded, and the keys of Java's that mean nothing here.

`Settings` (`config`) is made of fields that carry a `KeyInfo`; parsing and the reference for people follow
from it.

Source: RocketMQ 5.4.0 ControllerConfig.java, NettyServerConfig.java for the keys without effect.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from controller_core.remoting.numbers import signed_number

Kind = Literal["bool", "int", "text"]


class InvalidSettingError(ValueError):
    """A setting is missing or bad; the text names the key and the value, and says what would be right."""

    def __init__(self, key: str, value: str | None, problem: str) -> None:
        self.key = key
        self.value = value
        super().__init__(f"{key}={value!r}: {problem}" if value is not None else f"{key}: {problem}")


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """How a field of `Settings` is spelt, parsed and bounded.

    `live` keys may change at run time by request 1009.
    """

    key: str
    kind: Kind
    meaning: str
    default: str | None
    low: int = 0
    high: int = 0
    live: bool = False
    secret: bool = False


def text_key(key: str, default: str | None, meaning: str, *, live: bool = False, secret: bool = False) -> str:
    """Return the field of a setting that is a text."""
    info = KeyInfo(key, "text", meaning, default, live=live, secret=secret)
    return cast("str", dataclasses.field(default=default, metadata={"info": info}))


def int_key(key: str, default: int, low: int, high: int, meaning: str, *, live: bool = False) -> int:
    """Return the field of a setting that is a whole number from `low` to `high`."""
    info = KeyInfo(key, "int", meaning, str(default), low, high, live=live)
    return dataclasses.field(default=default, metadata={"info": info})


def bool_key(key: str, *, default: bool, meaning: str, live: bool = False) -> bool:
    """Return the field of a setting that is true or false."""
    info = KeyInfo(key, "bool", meaning, str(default).lower(), live=live)
    return dataclasses.field(default=default, metadata={"info": info})


def reference_lines(infos: Iterable[KeyInfo]) -> Iterable[str]:
    """Yield the settings as text for people: key, default, range and meaning."""
    for info in infos:
        bounds = f", {info.low} to {info.high}" if info.kind == "int" else ""
        default = "required" if info.default is None else f"default {info.default or 'empty'}"
        changeable = ", live" if info.live else ""
        yield f"{info.key} ({info.kind}{bounds}; {default}{changeable})"
        yield f"    {info.meaning}"


INERT_DEFAULTS: dict[str, str] = {
    # Why keep them: a file of the Java controller must start this one without a page of warnings, and request
    # 1010 lists what mqadmin users expect to see.
    "controllerRequestThreadPoolQueueCapacity": "50000",
    "controllerThreadPoolNums": "16",
    "controllerType": "DLedger",
    "enableShutdownGracefully": "false",
    "isProcessReadEvent": "false",
    "jRaftControllerRPCAddr": "localhost:9770,localhost:9771,localhost:9772",
    "jRaftElectionTimeoutMs": "1000",
    "jRaftGroupId": "jRaft-Controller",
    "jRaftInitConf": "localhost:9880,localhost:9881,localhost:9882",
    "jRaftScanWaitTimeoutMs": "1000",
    "jRaftServerId": "localhost:9880",
    "jRaftSnapshotIntervalSecs": "3600",
    "mappedFileSize": "1073741824",
    "metricGrpcExporterIntervalInMills": "60000",
    "metricGrpcExporterTimeOutInMills": "3000",
    "metricLoggingExporterIntervalInMills": "10000",
    "metricsExporterType": "DISABLE",
    "metricsGrpcExporterHeader": "",
    "metricsGrpcExporterTarget": "",
    "metricsInDelta": "false",
    "metricsLabel": "",
    "metricsPromExporterHost": "",
    "metricsPromExporterPort": "5557",
    "rocketmqHome": "",
    "scanNotActiveBrokerInterval": "5000",
    "serverAsyncSemaphoreValue": "64",
    "serverCallbackExecutorThreads": "0",
    "serverChannelMaxIdleTimeSeconds": "120",
    "serverNettyWorkerGroupEnable": "true",
    "serverOnewaySemaphoreValue": "256",
    "serverPooledByteBufAllocatorEnable": "true",
    "serverSelectorThreads": "3",
    "serverSocketBacklog": "1024",
    "serverSocketRcvBufSize": "0",
    "serverSocketSndBufSize": "0",
    "serverWorkerThreads": "8",
    "shutdownWaitTimeSeconds": "30",
    "useEpollNativeSelector": "false",
    "writeBufferHighWaterMark": "0",
    "writeBufferLowWaterMark": "0",
}
DERIVED_KEYS = frozenset({"listenPort"})
NAME_SERVER_KEYS = frozenset(
    # Why: with enableControllerInNamesrv, name server and controller share one file.
    [
        "clientRequestThreadPoolNums",
        "clientRequestThreadPoolQueueCapacity",
        "clusterTest",
        "defaultThreadPoolNums",
        "defaultThreadPoolQueueCapacity",
        "deleteTopicWithBrokerRegistration",
        "enableAllTopicList",
        "enableControllerInNamesrv",
        "enableTopicList",
        "kvConfigPath",
        "needWaitForService",
        "notifyMinBrokerIdChanged",
        "orderMessageEnable",
        "productEnvName",
        "returnOrderTopicConfigToBroker",
        "supportActingMaster",
        "unRegisterBrokerQueueCapacity",
        "waitSecondsForService",
        "channelNotActiveInterval",
        "clientAsyncSemaphoreValue",
        "clientCallbackExecutorThreads",
        "clientChannelMaxIdleTimeSeconds",
        "clientCloseSocketIfTimeout",
        "clientOnewaySemaphoreValue",
        "clientPooledByteBufAllocatorEnable",
        "clientSocketRcvBufSize",
        "clientSocketSndBufSize",
        "clientWorkerThreads",
        "connectTimeoutMillis",
        "disableCallbackExecutor",
        "disableNettyWorkerGroup",
        "enableReconnectForGoAway",
        "enableTransparentRetry",
        "maxReconnectIntervalTimeSeconds",
        "socksProxyConfig",
        "useTLS",
    ]
)
"""Keys of NamesrvConfig and NettyClientConfig (5.4.0) without a counterpart in the controller.

Without effect, and not listed.
"""


def parse_value(info: KeyInfo, text: str) -> bool | int | str:
    """Return the value that `text` means for the key.

    Raises:
        InvalidSettingError: it is not a boolean or integer, or out of range.
    """
    text = text.strip()
    match info.kind:
        case "text":
            return text
        case "bool":
            if text.lower() not in {"true", "false"}:
                raise InvalidSettingError(info.key, text, "must be true or false")
            return text.lower() == "true"
        case "int":
            number = signed_number(text)
            if number is None:
                raise InvalidSettingError(
                    info.key, text, f"must be a whole number from {info.low} to {info.high}"
                )
            if not info.low <= number <= info.high:
                raise InvalidSettingError(info.key, text, f"must be from {info.low} to {info.high}")
            return number
