"""Which operator acts, among the pods of one release and among releases."""
