"""What every process of this package uses.

Settings, controllers, events, the HTTP port, one HA connection.
"""
