"""What a leader knows about each member.

Progress of its log, messages in flight, votes, and the membership itself.
"""
