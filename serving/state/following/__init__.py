"""Follows logs of events: a folder of files, or a topic of Kafka."""
