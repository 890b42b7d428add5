Subnets name the owners of devices whose ports have their addresses of them (`service_types`).
