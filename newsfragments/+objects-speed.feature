Large objects come and go faster: an upload is hashed while it is written, and stays in the system's memory for whoever
reads it next; downloads by `sendfile` send as much as the connection takes before others have their turn.
