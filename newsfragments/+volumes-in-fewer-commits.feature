A volume is made with two commits to SQLite where it took three, and deleted with two where it took six.
