Compute's list of extensions names all that is offered, so clients that look there first find shelving, evacuation,
rescue, deferred deletion and the others.
