A URL that is signed for a prefix (`temp_url_prefix`) shows the listings of the folders below it, if the container has `X-Container-Meta-Web-Listings`; the links in them are signed alike.
