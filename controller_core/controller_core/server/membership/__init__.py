"""The members of the Raft cluster: founding it; adding, removing and replacing members."""
