"""The published examples of the signing algorithms."""

from __future__ import annotations

from datetime import datetime

import pytest
from attrs import evolve

from cloudctl import signature_v4
from cloudctl.identity.signatures import BadSignature, SignedRequest, check, check_s3

# AWS General Reference, «Signature Version 4 test suite», get-vanilla-query-order-key-case.
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = datetime(2015, 8, 30, 12, 40)


def request(signature: str) -> SignedRequest:
    authorization = (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )
    return SignedRequest(
        access="AKIDEXAMPLE",
        signature=signature,
        host="example.amazonaws.com",
        verb="GET",
        path="/",
        params={"Param2": "value2", "Param1": "value1"},
        headers={"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z", "authorization": authorization},
        body_hash="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    )


def test_the_example_of_version_4_is_right() -> None:
    check(request("b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"), SECRET, NOW)


def test_one_digit_more_or_less_is_wrong() -> None:
    with pytest.raises(BadSignature):
        check(request("b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2501"), SECRET, NOW)


@pytest.mark.parametrize(
    ("sent", "signed"), [("a \t b", "a b"), (" a\u00a0\u2003b ", "a\u00a0\u2003b"), ("\u00a0a", "\u00a0a")]
)
def test_only_ascii_spaces_of_a_header_are_collapsed(sent: str, signed: str) -> None:
    example = request("")
    names, scope = "host;x-amz-date;x-amz-meta-note", "20150830/us-east-1/service/aws4_request"
    headers = {**example.headers, "x-amz-meta-note": sent}
    headers["authorization"] = example.headers["authorization"].replace("host;x-amz-date", names)
    covered = [(name, headers[name]) for name in names.split(";")[:2]] + [("x-amz-meta-note", signed)]
    canonical = signature_v4.canonical("GET", b"/", b"Param1=value1&Param2=value2", covered, example.body_hash)
    signature = signature_v4.signature(SECRET, "20150830T123600Z", scope, canonical)
    check(evolve(example, headers=headers, signature=signature), SECRET, NOW)


def test_the_example_of_the_first_s3_signature_is_right() -> None:
    # Amazon S3 Developer Guide, «Signing and authenticating REST requests», Object GET.
    text = b"GET\n\n\nTue, 27 Mar 2007 19:36:42 +0000\n/awsexamplebucket1/photos/puppy.jpg"
    check_s3(text, "qgk2+6Sv9/oM7G3qLEjTH1a1l1g=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
