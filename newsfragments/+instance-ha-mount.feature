The instance-HA API is below the main ones too, at ``/instance-ha``, and only there with an empty ``ha_listen``.
