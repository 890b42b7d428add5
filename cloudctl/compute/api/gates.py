"""Microversions at which this API acts otherwise. What merely looks otherwise has its span where it is declared.

Reference: compute-microversions.md.
"""

from __future__ import annotations

from cloudctl.rest.versions import since

IP6_FILTER = since(2, 5, "everyone may list servers by `ip6`")
PUBLIC_ACCESS = since(2, 7, "no access is granted to a flavor that is public")
SOFT_POLICIES = since(2, 15, "server groups with soft policies")
HOST_STATUS = since(2, 16, "administrators see `host_status` of a server")
DESCRIPTION = since(2, 19, "a server is described by its description, not by its name")
GONE_ACTIONS = since(2, 21, "actions of servers that are gone")
TAGS_FILTER = since(2, 26, "everyone may list servers by tags")
CPU_OBJECT = since(2, 28, "`cpu_info` of a hypervisor is an object, no text")
HYPERVISOR_PAGES = since(2, 33, "hypervisors are listed in pages")
KEYPAIR_PAGES = since(2, 35, "key pairs are listed in pages")
NETWORKS = since(2, 37, "`networks` of a new server are needed, and may be `auto` or `none`")
STATUS_FILTER = since(2, 38, "servers are listed by no status that there is not")
USAGE_PAGES = since(2, 40, "usage is listed in pages")
IMAGE_ID = since(2, 45, "`createImage` answers with `image_id`, not with a `Location`")
WHOLE_FLAVOR = since(2, 47, "a server shows its flavor whole, not as a link")
CLASS_SERVER_GROUPS = since(2, 50, "quota classes show server groups")
EVENTS = since(2, 51, "everyone sees the events of an action; only administrators see `traceback`")
UUIDS = since(2, 53, "services and hypervisors are known by UUIDs, not by numbers")
ACTION_PAGES = since(2, 58, "actions of a server are listed in pages")
MIGRATION_PAGES = since(2, 59, "migrations are listed in pages")
MULTIATTACH = since(2, 60, "a volume can be attached to several servers")
GROUP_POLICY = since(2, 64, "a server group has one policy with rules")
LOCKED = since(2, 73, "everyone may list servers by `locked`, and sort by it")
STRICT_QUERY = since(2, 75, "parameters that are not known are refused")
NO_EMPTY_SWAP = since(2, 75, '`swap` of a flavor without any is 0, not ""')
EVERY_FIELD = since(2, 75, "a change and a rebuild answer with all fields of the server")
SERVERS_KEY = since(2, 75, "hypervisors show `servers` even if they were not asked for")
FILTERS = since(2, 83, "everyone may list servers by fields that only administrators could")
CHECKED_SPECS = since(2, 86, "extra specs of flavors are checked")
LEAN_HYPERVISOR = since(2, 88, "a hypervisor shows `uptime`, and no longer what it has")
ATTACHED_ONLY = since(2, 89, "volumes of a server are those that are attached")
HOSTNAME_FILTER = since(2, 90, "everyone may list servers by `hostname`")
ANY_ZONE = since(2, 91, "an unshelve with a zone that is null gives up the one that the server had to be in")
KEYPAIR_IMPORT = since(2, 92, "key pairs are imported, not made, and their names may hold `@` and `.`")
FULL_HOSTNAME = since(2, 94, "`hostname` of a server may be a full domain name")
