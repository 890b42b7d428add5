"""Loaded into the run of Swift's own tests, which know of no path before `/v1`: it is put there, and taken away."""

import http.client

import swiftclient
from test.functional import swift_test_client

BEFORE = "/object-store"
# It has one of its own, for names of headers as they are.
own = swift_test_client.putrequest
putrequest, get_auth = http.client.HTTPConnection.putrequest, swiftclient.client.get_auth


def put_with_path(self, method, url, *args, **kwargs):
    return putrequest(self, method, BEFORE + url if url.startswith(("/v1", "/info")) else url, *args, **kwargs)


def auth_without_path(*args, **kwargs):
    url, token = get_auth(*args, **kwargs)
    return url.replace(BEFORE, "", 1), token


def put_own_with_path(self, method, url, *args, **kwargs):
    return own(self, method, BEFORE + url if url.startswith(("/v1", "/info")) else url, *args, **kwargs)


swift_test_client.putrequest = put_own_with_path
http.client.HTTPConnection.putrequest = put_with_path
swiftclient.client.get_auth = swiftclient.get_auth = swift_test_client.get_auth = auth_without_path
