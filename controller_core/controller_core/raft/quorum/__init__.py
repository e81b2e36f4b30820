"""What a quorum means: majorities, and the joint of two majorities during a change of membership."""
