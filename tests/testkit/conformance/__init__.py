"""One conversation with a controller, recorded from RocketMQ's own and replayed against ours.

`script` is the conversation, `player` holds it over raw connections, `transcript` is its text form,
`improvements` is the one table of what ours does otherwise on purpose, `comparison` judges.
`python -m testkit.conformance` runs it.
"""
