"""What a leader knows about each member: progress of its log, messages in flight, votes, and the membership itself."""
