"""What every process of this package uses: settings, controllers, events, the HTTP port, one HA connection."""
