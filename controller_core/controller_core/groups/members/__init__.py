"""The members of a group: ids and addresses, the SyncStateSet, and removal of members."""
