Instance HA hears of guests that die by themselves, and with the driver `amqp` of kind `bus` of what other compute services tell by RabbitMQ.
