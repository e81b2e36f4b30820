"""What a person may do about each reason that a condition of a group gives. Reasons that pass by themselves are not here."""

from collections.abc import Mapping
from typing import Final

ADVICE: Final[Mapping[str, str]] = {
    "ControllersUnreachable": "look at the cluster's controllers: kubectl get rmqc, and the pods of its controllers. Brokers go on "
    "serving meanwhile; only a failover needs a majority of controllers",
    "KnownBroken": "set spec.version of the RocketMQCluster to a version that is sound; the brokers are replaced one by one",
    "MasterNotServing": "look at the master's pod: kubectl describe pod, kubectl logs -c broker",
    "MemberNotInSync": "wait until it has caught up; if its lag does not shrink, look at the log of its pod. If the present master's "
    "settings keep it from catching up, correct the spec and delete the master's pod: its volume stays",
    "MemberNotReady": "correct the spec if the message says that it broke that pod: broken pods of an older revision are replaced at "
    "once. Else look at the pod: kubectl describe pod. It runs the newest spec, and no serving member is restarted before it is ready",
    "MembersBehind": "wait until they have caught up; if a lag does not shrink, look at the log of that member's pod",
    "NameTaken": "remove or rename the object of that name, or give the group another name",
    "NoCandidate": "bring a second broker in sync first: only a broker in the SyncStateSet may become master. If the present master's "
    "settings keep others from it, correct the spec and delete the master's pod: its volume stays, and writes fail until it is back",
    "NoCluster": "create the RocketMQCluster that spec.cluster names, in the same namespace",
    "NoMaster": "bring a broker of the SyncStateSet back: no other has all that was acknowledged. Their pods, nodes and volumes come "
    "first. Where the spec keeps pods from starting (kubectl describe pod), correct it: they are replaced at once, on their volumes",
    "OwnedKey": "remove that key from spec.config: the operator writes it",
    "Asked": "set spec.paused to false, and the operator goes on",
    "ScaleInRefused": "wait until enough other members are in sync, or ask for more members first",
    "StepRefused": "read what the API server says, correct what it names; the step is tried again by itself",
    "SwitchoverRefused": "correct or remove the annotation; kubectl rmqha switchover writes it as it must be",
    "TooFewInSync": "bring another member back: what is acknowledged must be on two. Writes are refused until then",
}
