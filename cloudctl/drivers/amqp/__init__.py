"""A bus over AMQP 0-9-1: RabbitMQ, as OpenStack's services use it."""
