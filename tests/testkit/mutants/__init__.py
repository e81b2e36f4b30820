"""Planted bugs: each is put into a copy of the product, and the tests and simulations must find it."""
