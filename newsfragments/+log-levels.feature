`os-services/set-log` and `get-log` of block storage change and show the log levels of the process that answers, by prefix.
