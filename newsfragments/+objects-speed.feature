Large objects come and go faster: an upload is hashed beside its writing, which goes on while the hash is behind, and it
stays in the system's memory for whoever reads it next; downloads by `sendfile` send as much as the connection takes
before others have their turn.
