"""The plan of a Topic or a ConsumerGroup."""
