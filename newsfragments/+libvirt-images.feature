Images of servers, shelving and backups of servers with ``libvirt``, whose guests go on meanwhile.
