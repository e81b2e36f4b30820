"""How a replica gets its id and makes its address known: three calls and two files.

    no file            1012 next id -> temporary file -> 1013 apply -> identity file
    temporary file                                       1013 apply -> identity file
    identity file      nothing: an id is for ever
    then always        1003 register, which also brings the address up to date; again whenever a poll (1004)
                       is answered with 2008, as by controllers that lost their stores. Those take the id up
                       on a further request.

A refused application means that another replica was quicker; the next round asks for the next id. All calls
carry `replicaKind=log`: controllers of this project never elect such an id, RocketMQ's own ignore the field.

Source: ReplicasManager.registerBrokerToController 5.4.0; controller requests 1012, 1013, 1003.
"""

import time
from typing import Final

from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import (
    ApplyBrokerIdRequestHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    RegisterBrokerToControllerRequestHeader,
)
from controller_core.remoting.numbers import BrokerId
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.common.identity import Application, IdentityFiles
from ha_sidecar.replica.config import ReplicaConfig

REPLICA_KIND: Final = "log"
APPLICATIONS_MAX: Final = 5


class RegistrationRefusedError(Exception):
    """The controller refused; the text is its remark. Trying again later may help."""


async def take_id(controllers: Controllers, config: ReplicaConfig, files: IdentityFiles) -> BrokerId:
    """Return this replica's id, applying for one on the first start.

    Raises:
        RegistrationRefusedError: refused `APPLICATIONS_MAX` times in a row.
        ControllersUnavailableError: no leader answered.
    """
    known = files.read()
    if known is not None:
        return known
    remark: str | None = None
    for _ in range(APPLICATIONS_MAX):
        application = files.read_application() or await _next_application(controllers, config, files)
        header = ApplyBrokerIdRequestHeader(
            cluster_name=config.cluster,
            broker_name=config.group,
            applied_broker_id=application.broker_id,
            register_check_code=application.check_code,
            replica_kind=REPLICA_KIND,
        )
        answer = await controllers.call(
            RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, header.to_ext())
        )
        if answer.code == ResponseCode.SUCCESS:
            files.promote(application.broker_id)
            return application.broker_id
        remark = answer.remark
        files.drop_application()
    raise RegistrationRefusedError(f"1013: {remark}")


async def register(controllers: Controllers, config: ReplicaConfig, broker_id: BrokerId) -> None:
    """Make the address known. Its answer is not used to learn the master: the replica asks a majority.

    Raises:
        RegistrationRefusedError: the controller does not know the id or the group.
        ControllersUnavailableError: no leader answered.
    """
    header = RegisterBrokerToControllerRequestHeader(
        cluster_name=config.cluster,
        broker_name=config.group,
        broker_id=broker_id,
        broker_address=config.address,
        invoke_time=time.time_ns() // 1_000_000,
        replica_kind=REPLICA_KIND,
    )
    answer = await controllers.call(
        RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, header.to_ext())
    )
    if answer.code != ResponseCode.SUCCESS:
        raise RegistrationRefusedError(f"1003: {answer.code} {answer.remark}")


async def _next_application(
    controllers: Controllers, config: ReplicaConfig, files: IdentityFiles
) -> Application:
    header = GetNextBrokerIdRequestHeader(cluster_name=config.cluster, broker_name=config.group)
    answer = await controllers.call(
        RemotingCommand.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header.to_ext())
    )
    broker_id = GetNextBrokerIdResponseHeader.from_ext(answer.ext).next_broker_id
    if answer.code != ResponseCode.SUCCESS or broker_id is None:
        raise RegistrationRefusedError(f"1012: {answer.code} {answer.remark}")
    application = Application(BrokerId(broker_id), f"{config.address};{time.time_ns() // 1_000_000}")
    files.write_application(application)
    return application
