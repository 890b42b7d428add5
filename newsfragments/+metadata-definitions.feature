Metadata definitions (`/image/v2/metadefs`): namespaces with their resource types, properties, objects and tags. A new
cloud begins with definitions of the keys that its services read, so that dashboards can offer them.
