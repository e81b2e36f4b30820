"""Change of membership.

What a change is, how it alters the membership, how one is rebuilt from a snapshot.
"""
