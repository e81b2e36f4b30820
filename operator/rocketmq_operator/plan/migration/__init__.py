"""The plan that turns a broker group without controllers into a BrokerGroup."""
