"""Names that people, Kubernetes and the operator share: group, version, labels, annotations, kinds.

Never here: names of single children; those belong to the plan.
"""

from typing import Final, NamedTuple

GROUP: Final = "rocketmq-ha.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "rocketmq"
FIELD_MANAGER: Final = "rocketmq-ha"
"""One stable manager of server-side apply, so that what we no longer write is removed."""

CERT_MANAGER_GROUP: Final = "cert-manager.io"
CERTIFICATE_KIND: Final = "Certificate"
"""Of cert-manager, which a Kubernetes may lack."""
CLUSTER_LABEL: Final = f"{GROUP}/cluster"
GROUP_LABEL: Final = f"{GROUP}/group"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
LISTENER_LABEL: Final = f"{GROUP}/listener"
"""On the Services and EndpointSlices of a listener: its name."""
CANARY_LABEL: Final = f"{GROUP}/canary"
"""On the Service of a canary, which is not ours: the group that it probes."""
REPORT_LABEL: Final = f"{GROUP}/slo-report"
"""On the objects of an SLOReport, its Jobs and their pods included: its name."""
REPORTS_OF_LABEL: Final = f"{GROUP}/reports-of"
"""On the Service of a report server, which is not ours: the PersistentVolumeClaim whose reports it shows."""
USER_LABEL: Final = f"{GROUP}/user"
"""On the Secret that the operator made for a User: its name."""
EXECUTORS_LABEL: Final = f"{GROUP}/executors-account"
"""On the same Service: the account that may make the pods of a report's executors."""
REPORT_SERVER: Final = "report-server"
"""Component of such a Service."""
LOG_TARGET_ANNOTATION: Final = f"{GROUP}/log-to"
"""Of StatefulSets and Deployments whose Java processes log to standard output without a level."""
CONFIG_HASH_ANNOTATION: Final = f"{GROUP}/config-hash"
CLIENTS_TLS_ANNOTATION: Final = f"{GROUP}/clients-tls"
"""On pods that have a certificate for their clients: the stage of TLS, see `plan.tls.clients`."""
SWITCHOVER_ANNOTATION: Final = f"{GROUP}/switchover"
"""On a BrokerGroup: a switchover that a person asks for, `<epoch>` or `<epoch>:<member>`; see
`plan.group.switchover`."""
EPOCH_ANNOTATION: Final = f"{GROUP}/master-epoch"
"""On an EndpointSlice: the master epoch that decided which member serves."""
WANTED_HASH_ANNOTATION: Final = f"{GROUP}/wanted-hash"
CHANGED_ANNOTATION: Final = f"{GROUP}/changed-at"
"""On the Secret of a cluster's authority, and on those with certificates: when one of them changed last."""
SIGNER_ANNOTATION: Final = f"{GROUP}/signs-as"
"""On pods that read the credentials when they start: the user, see `plan.credentials.inner_users`."""
SIGNS_SINCE_ANNOTATION: Final = f"{GROUP}/signs-since"
"""On the Secret with a cluster's credentials: when its user began to sign."""
ROTATE_ANNOTATION: Final = f"{GROUP}/rotate-credentials"
"""On a RocketMQCluster: the name of the user to replace on request; see `plan.credentials.rotation`."""
CONTROLLERS_FINALIZER: Final = f"{GROUP}/controllers-in-use"
"""On a RocketMQCluster whose controllers another one uses."""
BROKERS_FINALIZER: Final = f"{GROUP}/in-brokers"
"""On a Topic, ConsumerGroup or User that the operator deletes from the brokers before Kubernetes deletes the
object."""


class KindNames(NamedTuple):
    """How a kind of ours is spelt."""

    kind: str
    plural: str
    singular: str
    short: str


CLUSTER_KIND: Final = KindNames("RocketMQCluster", "rocketmqclusters", "rocketmqcluster", "rmqc")
GROUP_KIND: Final = KindNames("BrokerGroup", "brokergroups", "brokergroup", "rmqbg")
FAILOVER_KIND: Final = KindNames("Failover", "failovers", "failover", "rmqfo")
REPORT_KIND: Final = KindNames("SLOReport", "sloreports", "sloreport", "rmqslo")
TOPIC_KIND: Final = KindNames("Topic", "topics", "topic", "rmqt")
CONSUMER_GROUP_KIND: Final = KindNames("ConsumerGroup", "consumergroups", "consumergroup", "rmqcg")
USER_KIND: Final = KindNames("User", "users", "user", "rmqu")
OUR_KINDS: Final = (
    *(CLUSTER_KIND, GROUP_KIND, FAILOVER_KIND, REPORT_KIND),
    *(TOPIC_KIND, CONSUMER_GROUP_KIND, USER_KIND),
)
