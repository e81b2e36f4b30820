"""Commands that ask for a commit index or the result of a vote, and cross-check the answer.

    committed cfg=(1,2,3) [cfgj=(2,3,4)] idx=(12,_,5)
    vote      cfg=(1,2,3) [cfgj=zero]    votes=(y,n,_)

`idx` and `votes` have one value per voter, in the order of cfg then cfgj; _ is an unknown one.
`cfgj=zero` asks for a joint quorum with an empty half.

Variations that must not change the answer (exchanging the halves, joining with the empty or the same half,
counting naively) is tried as well, and shows in the output if it does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller_core.raft.quorum.joint import joint_index, joint_vote
from controller_core.raft.quorum.majority import INFINITE_INDEX, quorum_index, vote_result
from testkit.raft_scenarios.datadriven import Case
from testkit.raft_scenarios.printers import describe_index

COMMANDS = frozenset(("committed", "vote"))
_VOTES = {"y": 2, "n": 1, "_": 0}


@dataclass(frozen=True, slots=True)
class _Question:
    voters: tuple[int, ...]
    joint: bool
    outgoing: tuple[int, ...]
    known: dict[int, int]


class QuorumEnv:
    """Answers each command from its arguments alone."""

    def handle(self, case: Case) -> str:
        """Run one command."""
        try:
            question = _read(case)
        except ValueError as error:
            return f"error: {error}"
        return _committed(question) if case.command == "committed" else _vote(question)


def naive_committed(voters: Collection[int], acked: Mapping[int, int]) -> int:
    """Return the commit index by trying every index: the largest that most of the voters reached."""
    if not voters:
        return INFINITE_INDEX
    candidates = [
        index for index in acked.values() if 2 * sum(acked.get(v, 0) >= index for v in voters) > len(voters)
    ]
    return max(candidates, default=0)


def _read(case: Case) -> _Question:
    arguments = {argument.key: argument.values for argument in case.arguments}
    voters = tuple(map(int, arguments.get("cfg", ())))
    joint = "cfgj" in arguments
    outgoing = () if arguments.get("cfgj") == ("zero",) else tuple(map(int, arguments.get("cfgj", ())))
    if case.command == "vote":
        given = [_VOTES[value] for value in arguments.get("votes", ())]
    else:
        given = [0 if value == "_" else int(value) for value in arguments.get("idx", ())]
    everyone = tuple(dict.fromkeys((*voters, *outgoing)))
    if len(given) != len(everyone):
        raise ValueError(f"mismatched input (explicit or _) for voters {sorted(everyone)}: {given}")
    known = {voter: value for voter, value in zip(everyone, given, strict=True) if value}
    return _Question(voters, joint, outgoing, known)


def _committed(question: _Question) -> str:
    voters, outgoing, known = question.voters, question.outgoing, question.known
    text = _bars((*voters, *outgoing), known)

    def of(first: Collection[int], second: Collection[int]) -> int:
        return joint_index(first, second, lambda voter: known.get(voter, 0))

    if question.joint:
        index = of(voters, outgoing)
        others = {"symmetry": of(outgoing, voters)}
    else:
        index = quorum_index([known.get(voter, 0) for voter in voters])
        others = {
            "alternative computation": naive_committed(voters, known),
            "zero-joint quorum": of(voters, ()),
            "self-joint quorum": of(voters, voters),
        }
        others.update(_overlays(voters, known, index))
    for name, other in others.items():
        if other != index:
            text += f"{describe_index(other)} <-- via {name}\n"
    return f"{text}{describe_index(index)}\n"


def _overlays(voters: Collection[int], known: Mapping[int, int], index: int) -> dict[str, int]:
    """Lower each voter that is below the commit index already: the index must stay."""
    found: dict[str, int] = {}
    for voter in voters:
        own = known.get(voter, 0)
        if 0 < own < index:
            for lower in (own - 1, 0):
                overlaid = {**known, voter: lower}
                found[f"overlaying {voter}->{lower}"] = quorum_index([overlaid.get(v, 0) for v in voters])
    return found


def _vote(question: _Question) -> str:
    ballots = {voter: value == _VOTES["y"] for voter, value in question.known.items()}
    if not question.joint:
        return f"Vote{vote_result(question.voters, ballots).name.title()}\n"
    result = joint_vote(question.voters, question.outgoing, ballots)
    mirrored = joint_vote(question.outgoing, question.voters, ballots)
    note = "" if mirrored == result else f"Vote{mirrored.name.title()} <-- via symmetry\n"
    return f"{note}Vote{result.name.title()}\n"


def _bars(voters: Collection[int], known: Mapping[int, int]) -> str:
    """Draw each voter's index as a bar whose length is the number of voters behind it."""
    everyone = sorted(set(voters))
    if not everyone:
        return "<empty majority quorum>"
    width = len(everyone)
    text = " " * width + "    idx\n"
    for voter in everyone:
        own = known.get(voter, 0)
        behind = sum(known.get(other, 0) < own for other in everyone)
        bar = "x" * behind + ">" + " " * (width - behind) if voter in known else "?" + " " * width
        text += f"{bar} {own:5d}    (id={voter})\n"
    return text
