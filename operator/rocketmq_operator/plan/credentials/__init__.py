"""The super users that sign for operator and members, and how one replaces the other."""
