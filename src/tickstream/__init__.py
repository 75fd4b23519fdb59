"""tickstream: a distributed timer, job scheduler and calendar on Kafka."""
