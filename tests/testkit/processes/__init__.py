"""Any real process of a test, and what surrounds one: ports, relays, certificates, a browser, a Prometheus."""
