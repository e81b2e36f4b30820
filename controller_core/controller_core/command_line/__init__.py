"""What the command lines of all programs share: the parser, errors, exit status and version.

The other packages depend on this one, so errors and exit statuses are the same everywhere. A new program
takes `Parser`, adds its commands, and calls `run`.
"""
