"""Requests of brokers and mqadmin over remoting: handlers, forwarding to the leader, answers, bounds."""
