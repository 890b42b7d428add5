A page of networking costs the same however much a project or the cloud has, by nearly every filter and sort key:
descriptions, names, protocols, when they were made and all others but a few that `docs/internals.md` names; also for a project
with which something is shared, whose pages of networks and subnets grew with its own. The schema's version is 28.
