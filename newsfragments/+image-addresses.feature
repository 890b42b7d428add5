An image can be told at which address its data is (`POST /image/v2/images/IMAGE/locations`), and by which hash it is
known. It is fetched once, looked at, and kept in the read-only store `web`, which is there where `[image] web_store` is true.
