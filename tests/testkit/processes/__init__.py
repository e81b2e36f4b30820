"""Any real process of a test, and its surroundings: ports, relays, certificates, browser, Prometheus."""
