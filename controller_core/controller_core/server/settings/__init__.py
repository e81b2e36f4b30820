"""Settings of a controller: keys, files, changes at run time, TLS certificates."""
