A cloud that is upgraded finds the new services, placement and the object store, in its catalog, and new security groups
begin with the rules that they always had.
