"""A small request never causes much work: manifests of manifests, archives, lists, forms."""

from __future__ import annotations

import bz2
import io
import json
import resource
import tarfile
import time
import tracemalloc

import pytest

from cloudctl.errors import Invalid
from cloudctl.object_store import archives, large
from cloudctl.object_store.api.s3 import xml
from cloudctl.object_store.api.s3.documents import MOST
from cloudctl.testing.cloud import MemoryCloud
from tests.object_store.asking import Account
from tests.object_store.conftest import cloud, mine
from tests.object_store.signing import S3
from tests.object_store.test_object_access import FORM, KEY

__all__ = ["cloud", "mine"]


def manifest(*paths: str) -> bytes:
    return json.dumps([{"path": path} for path in paths]).encode()


def test_manifests_of_manifests_are_read_once_each_and_up_to_a_bound(mine: Account) -> None:
    mine.put("c")
    mine.put("c/o", b"x" * 1000)
    below = "/c/o"
    for level in range(5):
        made = mine.ask("PUT", f"c/{level}", "multipart-manifest=put", body=manifest(*[below] * 1000))
        assert made.status == 201
        below = f"/c/{level}"
    # More bytes than a number can hold.
    assert mine.ask("PUT", "c/5", "multipart-manifest=put", body=manifest(*[below] * 1000)).status == 413
    began = time.process_time()
    assert mine.head("c/4").headers["Content-Length"] == str(1000 * 1000**5)
    assert mine.get("c/4").status == mine.get("c/4", Range="bytes=0-1").status == 409
    # Reading all of it would take years.
    assert time.process_time() - began < 20
    some = mine.ask("PUT", "c/some", "multipart-manifest=put", body=manifest(*["/c/0"] * 10))
    assert some.status == 201
    assert mine.get("c/some", Range="bytes=9999998-").body == b"xx"
    deleted = mine.ask("DELETE", "c/4", "multipart-manifest=delete", Accept="application/json").json()
    assert deleted["Number Deleted"] == 6


def test_the_bytes_within_manifests_are_bounded(mine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MOST_OF_MANIFESTS", 5000)
    mine.put("c")
    mine.put("c/o", b"x")
    within = json.dumps([{"path": "/c/o"}, {"data": "eHh4" * 1000}]).encode()
    for name in "ab":
        assert mine.ask("PUT", f"c/{name}", "multipart-manifest=put", body=within).status == 201
        assert mine.get(f"c/{name}").status == 200
    assert mine.ask("PUT", "c/both", "multipart-manifest=put", body=manifest("/c/a", "/c/b")).status == 201
    assert mine.get("c/both").status == 409


# -- archives


def header(kind: bytes, size: int) -> bytes:
    made = tarfile.TarInfo("x")
    made.type, made.size = kind, size
    return made.tobuf(tarfile.USTAR_FORMAT)


HUGE = 40 * 2**20
FILE = header(tarfile.REGTYPE, 5) + b"hello".ljust(512, b"\0")
BOMBS = {
    "a header of many bytes": header(tarfile.XHDTYPE, HUGE) + b"a" * HUGE,
    "a name of many bytes": header(tarfile.GNUTYPE_LONGNAME, HUGE) + b"a" * HUGE,
    "a number of many digits": header(tarfile.XHDTYPE, 15_000) + b"1" * 15_360 + FILE,
    "headers of headers": header(tarfile.XHDTYPE, 0) * 5000 + FILE,
    "a file of nothing": header(tarfile.REGTYPE, HUGE) + bytes(HUGE),
    "many folders": header(tarfile.DIRTYPE, 0) * 10_000 + FILE,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_unpacks_to_much_costs_little(bomb: str) -> None:
    packed = bz2.compress(BOMBS[bomb])
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    with pytest.raises(Invalid):
        for member in archives.members(io.BytesIO(packed), "tar.bz2", 2**40):
            for _ in member.chunks():
                """What there is."""
    assert time.thread_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_is_said_of_all_members_does_not_pile_up(form: int) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form, pax_headers={"comment": "of all"}) as archive:
        for name, size in (("long/" * 60 + "é", 3), ("block", 1024), ("large", 700_000), ("none", 0)):
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(b"d" * size))
    for packed, form_ in ((made.getvalue(), "tar"), (bz2.compress(made.getvalue()), "tar.bz2")):
        found = [
            (each.path, sum(map(len, each.chunks()))) for each in archives.members(io.BytesIO(packed), form_, 2**30)
        ]
        assert found == [("long/" * 60 + "é", 3), ("block", 1024), ("large", 700_000), ("none", 0)]


def test_a_broken_archive_is_told_in_the_answer(mine: Account, cloud: MemoryCloud) -> None:
    broken = bz2.compress(FILE * 1000)[:-20]
    for body in (*map(bz2.compress, (BOMBS["a number of many digits"], BOMBS["headers of headers"])), broken):
        said = mine.ask("PUT", "c", "extract-archive=tar.bz2", body=body, Accept="application/json").json()
        assert said["Response Status"] == "400 Bad Request", said


# -- lists and forms


def test_lists_of_nothing_do_not_hold_up_the_reactor(mine: Account) -> None:
    began = time.thread_time()
    said = mine.ask("POST", "", "bulk-delete", body=b"\n" * 10**6 + b"/c/o", Accept="application/json").json()
    assert (said["Number Not Found"], time.thread_time() - began < 5) == (1, True)


# What an S3 document may consist of, over and over.
FILLINGS = (b"<a/>", b"<a>", b"<a><b x='1'/>", b"&lt;", b"\n", b"\r", b"<!---->", b"<?a?>", b"x")


@pytest.mark.parametrize("filling", FILLINGS)
def test_a_document_of_s3_costs_little_whatever_it_is_full_of(filling: bytes) -> None:
    document = b"<Delete>" + filling * (MOST // len(filling) - 10) + b"</Delete>"
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    if filling == b"x":
        xml.parse(document, "Delete")
    else:
        with pytest.raises(xml.Malformed, match="too many"):
            xml.parse(document, "Delete")
    assert time.thread_time() - began < 0.25
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


def test_as_many_parts_as_an_upload_has_are_read() -> None:
    said = {"PartNumber": "1", "ETag": "&quot;x&quot;", "ChecksumCRC32": "AAAAAA=="}
    part = "".join(f"<{name}>{value}</{name}>\n" for name, value in said.items())
    document = f"<CompleteMultipartUpload>{f'<Part>{part}</Part>' * 10_000}</CompleteMultipartUpload>"
    assert len(xml.parse(document.encode(), "CompleteMultipartUpload").findall("Part")) == 10_000


def test_a_form_that_nobody_has_signed_has_few_fields(mine: Account, cloud: MemoryCloud) -> None:
    mine.put("c")
    mine.post("c", X_Container_Meta_Temp_URL_Key=KEY)
    fields = b"".join(
        b'--B\r\nContent-Disposition: form-data; name="%d"\r\n\r\nx\r\n' % number for number in range(1000)
    )
    nobody = Account(cloud.anonymous(), mine.project_id)
    answer = nobody.ask("POST", "c/o", body=fields + b"--B--\r\n", **FORM)
    assert answer.status == 400 and b"too many fields" in answer.body


def test_an_object_where_an_old_version_would_go_is_a_conflict(mine: Account) -> None:
    mine.holding("old", "001o/9999999999.99999", "001o/10000000000.00000")
    mine.put("c", b"", X_Versions_Location="old")
    mine.put("c/o", b"1")
    assert mine.ask("PUT", "c/o", body=b"2").status == 409
    assert mine.get("c/o").body == b"1"


# -- documents of buckets


def test_a_list_of_buckets_reads_none_of_their_documents(cloud: MemoryCloud) -> None:
    s3 = S3(cloud, cloud.client("demo"))
    named = "".join(f"<AllowedHeader>x{number:09}</AllowedHeader>" for number in range(2400))
    rule = f"<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>{named}</CORSRule>"
    rules = f"<CORSConfiguration>{rule}</CORSConfiguration>".encode()
    for number in range(60):
        s3.put(f"bucket{number}")
        assert s3.ask("PUT", f"bucket{number}", "cors", body=rules).status == 200
    account = f"/object-store/v1/AUTH_{s3.project_id}?format=json"
    for ask in (lambda: s3.get(""), lambda: s3.client.get(account)):
        assert ask().status == 200
        tracemalloc.start()
        assert b"bucket59" in ask().body
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # All of them are 2 MiB before they are read.
        assert most < 2**20, most
