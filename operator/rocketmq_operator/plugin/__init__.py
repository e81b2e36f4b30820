"""`kubectl rmqha`: what a person on call asks of a broker group, in few words."""
