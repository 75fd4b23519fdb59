"""The raw floors: what librdkafka and the broker do without any of the product's logic.

Only sizes and the layout come from the product; its Kafka settings, engine and store stay out.
"""
