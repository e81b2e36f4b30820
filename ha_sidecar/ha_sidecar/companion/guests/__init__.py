"""Guests: clients that come to the address of a former master, which leads to this one's pod."""
