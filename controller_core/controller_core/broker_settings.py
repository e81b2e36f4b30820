"""The settings that a broker reads each time it uses them, so that a new value holds without a restart.

A broker takes any setting at run time (request 25) and shows it (26). Most are read once, when the broker
starts, and the new value then changes nothing. These are settings whose getter is called in the code that
uses them, in each version from 5.2.0 to 5.5.0: `LIVE_SETTINGS`, which users may change and whose default is
the same in all of these, and the two that stop a broker's writes.

Source: RocketMQ 5.2.0, 5.3.3, 5.4.0 and 5.5.0, BrokerConfig and MessageStoreConfig for the defaults; the
classes named in the comments for the use.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LIVE_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # DefaultMessageStore.estimateInMemByCommitOffset
        "accessMessageInMemoryMaxRatio": "40",
        # SubscriptionGroupManager.findSubscriptionGroupConfig
        "autoCreateSubscriptionGroup": "true",
        # BrokerFastFailure, every 10 ms
        "brokerFastFailureEnable": "true",
        # BrokerController.protectBroker
        "consumerFallbehindThreshold": "17179869184",
        # DefaultMessageStore.CleanCommitLogService, every 10 s; so are the other delete keys
        "deleteCommitLogFilesInterval": "100",
        "deleteFileBatchMax": "10",
        "deleteWhen": "04",
        "destroyMapedFileIntervalForcibly": "120000",
        # BrokerController.protectBroker
        "disableConsumeIfConsumerReadSlowly": "false",
        "diskMaxUsedSpaceRatio": "75",
        # PullMessageProcessor.processRequest, ClientManageProcessor.checkClientConfig
        "enablePropertyFilter": "false",
        "fileReservedTime": "72",
        # CommitLog.FlushRealTimeService.run, each round
        "flushIntervalCommitLog": "500",
        # DefaultPullMessageResultHandler.handle, PullRequestHoldService.run
        "longPollingEnable": "true",
        # DefaultMessageStore.isTheBatchFull
        "maxTransferBytesOnMessageInDisk": "65536",
        "maxTransferBytesOnMessageInMemory": "262144",
        "maxTransferCountOnMessageInDisk": "8",
        "maxTransferCountOnMessageInMemory": "32",
        # DefaultConsumerIdsChangeListener.handle
        "notifyConsumerIdsChangedEnable": "true",
        # DefaultMessageStore.isOSPageCacheBusy
        "osPageCacheBusyTimeOutMills": "1000",
        # SendMessageProcessor.sendMessage
        "rejectTransactionMessage": "false",
        # DefaultPullMessageResultHandler.handle, PullRequestHoldService.run
        "shortPollingTimeMills": "1000",
        # PullMessageProcessor.rejectRequest
        "slaveReadEnable": "false",
        # TransactionalMessageCheckService.onWaitEnd
        "transactionCheckMax": "15",
        "transactionTimeOut": "6000",
        # BrokerFastFailure, every 10 ms
        "waitTimeMillsInPullQueue": "5000",
        "waitTimeMillsInSendQueue": "200",
    }
)
"""Default by name."""

MIN_IN_SYNC: Final = "minInSyncReplicas"
"""Sends that wait for copies are refused while the SyncStateSet has fewer members.

CommitLog.asyncPutMessage looks at it, if CommitLog.needHandleHA does not see a slave.
"""
MIN_IN_SYNC_REFUSAL: Final = "in-sync replicas not enough"
"""A part of the remark with which such a send is refused; the code is SYSTEM_ERROR."""
SENDS_FROM: Final = "startAcceptSendRequestTimeStamp"
"""Sends are refused before this time, UTC milliseconds; SendMessageProcessor.preSend looks at it."""
SENDS_FROM_REFUSAL: Final = "broker unable to service, until "
"""The beginning of the remark with which such a send is refused; the code is SYSTEM_ERROR."""
FENCED_MS: Final = 10**15
"""A fence adds this to `SENDS_FROM`: a time in the year 33658, which no administrator has set."""
