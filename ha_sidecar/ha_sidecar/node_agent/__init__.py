"""The node agent: ends connections of its node's processes to masters that were replaced for silence."""
