Administrators set default quotas of compute and volumes: `PUT /os-quota-class-sets/default`.
