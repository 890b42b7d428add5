Objects and images of more than 64 KiB are sent by `sendfile` where the connection is not encrypted.
