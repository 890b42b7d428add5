"""Loaded into the run of Swift's own tests, which know of no path before `/v1`: it is put there, and taken away."""

import http.client

import swiftclient

BEFORE = "/object-store"
begin = http.client.HTTPResponse.begin
putrequest, get_auth = http.client.HTTPConnection.putrequest, swiftclient.client.get_auth


def longer(url):
    return BEFORE + url if url.startswith(("/v1", "/info")) else url


def put_with_path(self, method, url, *args, **kwargs):
    return putrequest(self, method, longer(url), *args, **kwargs)


def auth_without_path(*args, **kwargs):
    url, token = get_auth(*args, **kwargs)
    return url.replace(BEFORE, "", 1), token


def begin_without_path(self):
    begin(self)
    for name in ("Location", "Content-Location"):
        if (value := self.headers.get(name)) is not None:
            self.headers.replace_header(name, value.replace(BEFORE + "/v1", "/v1", 1))


http.client.HTTPConnection.putrequest = put_with_path
http.client.HTTPResponse.begin = begin_without_path
swiftclient.client.get_auth = swiftclient.get_auth = auth_without_path

from test.functional import swift_test_client  # noqa: E402 (what it imports is changed by then)

# It has one of its own, for names of headers as they are.
own = swift_test_client.putrequest


def put_own_with_path(self, method, url, *args, **kwargs):
    return own(self, method, longer(url), *args, **kwargs)


swift_test_client.putrequest = put_own_with_path
