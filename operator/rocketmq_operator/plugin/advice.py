"""What a person may do about each reason that a condition of a group gives.

Reasons that pass by themselves are not here.
"""

from collections.abc import Mapping
from typing import Final

ADVICE: Final[Mapping[str, str]] = {
    "CompanionRefused": "let requests without credentials from 127.0.0.1 through in the broker's access "
    "control (spec.config), or switch it off: the companion signs nothing, and a broker that refuses it "
    "never becomes ready",
    "CrashLoop": "read the last line of its log in the message; the whole log: kubectl logs --previous. "
    "Correct the spec: a pod that it broke is replaced at once, on its volume",
    "FailedCreate": "raise the quota that the message names, or correct what else it says forbids the pod (a "
    "LimitRange, PodSecurity, a webhook); Kubernetes tries again by itself, after a failure of long standing "
    "within 17 minutes",
    "FieldRewritten": "exclude the operator's objects from the policy that changes the field: kubectl get "
    "mutatingwebhookconfigurations lists what may. Or set the field in the spec to what the policy wants, "
    "where the spec has it",
    "ImageNotPulled": "correct the image or the version in the spec of the RocketMQCluster, or let the nodes "
    "reach the registry; kubectl describe pod has the registry's words. Broken pods are replaced at once",
    "NotCreated": "create the ConfigMap, Secret or command that the message names, or restart the pod where "
    "it came back since",
    "OOMKilled": "raise resources.memory in the spec (logResources for log replicas): the pod is replaced at "
    "once, on its volume",
    "Unschedulable": "add a node that fits, or ask for less in the spec (resources, placement); the message "
    "has the scheduler's words",
    "VolumeLost": "restore the PersistentVolume, or delete the claim and the pod while the other members are "
    "in sync: it starts empty",
    "VolumePending": "create the storage class that the message names, or a default one (kubectl get "
    "storageclass), with a provisioner that runs; a claim keeps its class: to change it, delete the claim "
    "and its pod, which do not contain data yet",
    "VolumeTerminating": "somebody deleted the claim: its data is lost when its pod ends. Wait until all "
    "other members are in sync, then delete the pod: it starts with an empty volume and is filled from them",
    "ControllersUnreachable": "look at the cluster's controllers: kubectl get rmqc, and the pods of its "
    "controllers. Brokers go on serving; only a failover needs a majority of controllers",
    "KnownBroken": "set spec.version of the RocketMQCluster to a version that is sound; the brokers are "
    "replaced one by one",
    "MasterNotServing": "look at the master's pod: kubectl describe pod, kubectl logs -c broker",
    "MemberNotInSync": "wait until it has caught up; if its lag does not shrink, look at the log of its pod. "
    "If the present master's settings keep it from catching up, correct the spec and delete the master's "
    "pod: its volume stays",
    "MemberNotReady": "correct the spec if the message says that it broke that pod: broken pods of an older "
    "revision are replaced at once. Else look at the pod: kubectl describe pod. It runs the newest spec, and "
    "no serving member is restarted before it is ready",
    "MembersBehind": "wait until they have caught up; if a lag does not shrink, look at the log of that "
    "member's pod",
    "NameTaken": "remove or rename the object of that name, or give the group another name",
    "NoCandidate": "bring a second broker in sync first: only a broker in the SyncStateSet may become "
    "master. If the present master's settings keep others from it, correct the spec and delete the master's "
    "pod: its volume stays, and writes fail until it is back",
    "NoCluster": "create the RocketMQCluster that spec.cluster names, in the same namespace",
    "NoMaster": "bring a broker of the SyncStateSet back: no other has all that was acknowledged. Their "
    "pods, nodes and volumes come first. Where the spec keeps pods from starting (kubectl describe pod), "
    "correct it: they are replaced at once, on their volumes",
    "OwnedKey": "remove the key that the message names: the operator writes it",
    "Asked": "set spec.paused to false, and the operator goes on",
    "OwnedName": "give the entry that the message names another name: the operator uses this one",
    "PodRefused": "correct the field that the message names, in pod or podOverride of the spec. Until then "
    "the operator applies nothing of the changed spec, and the pods that run go on",
    "ScaleInRefused": "wait until enough other members are in sync, or ask for more members first",
    "StepRefused": "read what the API server says, correct what it names; the step is tried again by itself",
    "SwitchoverRefused": "correct or remove the annotation; kubectl rmqha switchover writes it as it must be",
    "TooFewInSync": "bring another member back: what is acknowledged must be on two. Writes are refused "
    "until then",
}
