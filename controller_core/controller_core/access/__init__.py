"""Access control of brokers, as their clients meet it: signatures, credentials in files, users and rights."""
