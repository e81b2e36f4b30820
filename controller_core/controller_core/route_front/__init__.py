"""The route front: gives clients outside a cluster its routes, with the addresses of one listener."""
