"""Many at once: lists of paths, and archives."""

from __future__ import annotations

import io
import tarfile

import pytest

from cloudctl.object_store.hashing import HashedFile
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.asking import Account, files
from tests.object_store.test_object_access import FORM, KEY, form

JSON = {"Accept": "application/json"}


def archive(mode: str = "w", **members: bytes) -> bytes:
    """A name has __ for /."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as tar:  # type: ignore[call-overload]  # a mode of the caller's
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("c/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return made.getvalue()


@pytest.mark.parametrize(("form", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2")])
def test_archives(mine: Account, form: str, mode: str) -> None:
    sent = archive(mode, c__a=b"one", c__b__c=b"two" * 50_000, d__e=b"")
    made = mine.ask("PUT", "", f"extract-archive={form}", body=sent, **JSON)
    assert made.json() == {
        "Number Files Created": 3, "Response Status": "201 Created", "Response Body": "", "Errors": [],
    }  # fmt: skip
    assert (mine.names(), mine.names("c")) == (["c", "d"], ["a", "b/c"])
    assert mine.get("c/b/c").body == b"two" * 50_000
    below = mine.ask("PUT", "c/x", f"extract-archive={form}", body=archive(mode, y=b"1"), **JSON)
    assert below.json()["Number Files Created"] == 1
    assert mine.get("c/x/y").body == b"1"


def test_archives_that_are_none(mine: Account, reader: Client, cloud: MemoryCloud) -> None:
    for body in (b"", b"x" * 5000, archive("w", c__a=b"1" * 5000)[:3000]):
        said = mine.ask("PUT", "", "extract-archive=tar", body=body, **JSON).json()
        assert said["Response Status"] == "400 Bad Request", said
    assert mine.ask("PUT", "", "extract-archive=zip", body=b"x").status == 400
    assert mine.ask("PUT", "").status == 405
    rita = Account(reader, mine.project_id)
    assert rita.ask("PUT", "", "extract-archive=tar", body=archive("w", c__a=b"1")).status == 403
    assert files(cloud) == set()


def test_what_is_set_with_an_archive_is_set_on_its_files(mine: Account) -> None:
    mine.put("c")
    sent = {"X-Delete-After": "100", "X-Object-Meta-Color": "red", "Content-Type": "application/x-tar"}
    for wrong in ({"X-Delete-At": "1"}, {"X-Object-Meta-Color": "r" * 257}):
        assert mine.ask("PUT", "c", "extract-archive=tar", body=archive(a=b"one"), **wrong).status == 400
    assert mine.names("c") == []
    mine.ask("PUT", "c", "extract-archive=tar", body=archive(a=b"one"), **sent)
    told = mine.head("c/a").headers
    at = int(mine.client.cloud.clock.seconds()) + 100
    assert (told["X-Delete-At"], told["X-Object-Meta-Color"]) == (str(at), "red")
    assert told["Content-Type"] == "application/octet-stream"


def test_files_that_find_no_room_are_files(mine: Account) -> None:
    mine.put("c", X_Container_Meta_Quota_Count="0")
    said = mine.ask("PUT", "c", "extract-archive=tar", body=archive(a=b"one"), **JSON).json()
    assert (said["Response Status"], said["Response Body"]) == ("400 Bad Request", "")
    assert said["Errors"] == [["c/a", "413 Request Entity Too Large"]]


def test_nothing_is_written_that_quotas_have_no_room_for(mine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an archive, a copy and a form: an archive of kilobytes may hold any number of gigabytes."""
    mine.post(X_Account_Meta_Temp_URL_Key=KEY)
    mine.put("c", X_Container_Meta_Quota_Bytes="1500")
    mine.put("c/source", b"x" * 1000)
    written = []
    monkeypatch.setattr(HashedFile, "write", lambda _self, data: written.append(data))
    said = mine.ask("PUT", "c", "extract-archive=tar", body=archive(a=b"one" * 400), **JSON).json()
    assert said["Errors"] == [["c/a", "413 Request Entity Too Large"]]
    assert mine.ask("PUT", "c/copy", X_Copy_From="/c/source", Range="bytes=0-900").status == 413
    assert mine.ask("POST", "c", body=form(mine, "c", most=1000, p=b"1" * 501), **FORM).status == 413
    assert written == []


def test_lists(mine: Account) -> None:
    mine.holding("c", "a", "b c", "é")
    body = b"/c/a\nc/b%20c\n\n/c/%C3%A9\n/c/none\n/none\n/c\n"
    said = mine.ask("POST", "", "bulk-delete", body=body, Content_Type="text/plain", **JSON).json()
    assert (said["Number Deleted"], said["Number Not Found"], said["Errors"]) == (4, 2, [])
    assert said["Response Status"] == "200 OK"
    mine.holding("d", "a")
    said = mine.ask("DELETE", "", "bulk-delete", body=b"/d\n/d/%ff", **JSON).json()
    assert said["Errors"] == [["/d", "409 Conflict"], ["/d/%FF", "412 Precondition Failed"]]
    assert said["Response Status"] == "400 Bad Request"
    assert mine.ask("DELETE", "").status == 405
    many = mine.ask("POST", "", "bulk-delete", body=b"/x/y\n" * 10_001, **JSON).json()
    assert many["Response Status"] == "413 Request Entity Too Large"
    empty = mine.ask("POST", "", "bulk-delete", body=b"\n \n", **JSON).json()
    assert empty["Response Status"] == "400 Bad Request"


def test_forms_of_the_answer(mine: Account) -> None:
    mine.put("c")
    plain = mine.ask("POST", "", "bulk-delete", body=b"/c", Accept="text/plain").body
    assert plain == b"Number Deleted: 1\nNumber Not Found: 0\nResponse Status: 200 OK\nResponse Body: \nErrors:"
    xml = mine.ask("POST", "", "bulk-delete", body=b"/c", Accept="application/xml").body
    assert b"<delete><number_deleted>0</number_deleted><number_not_found>1</number_not_found>" in xml


@pytest.mark.parametrize("method", ["DELETE", "POST"])
@pytest.mark.parametrize("path", ["c", "c/kept", "empty", "c/none"])
def test_a_list_is_all_that_goes_wherever_it_is_sent(mine: Account, reader: Client, method: str, path: str) -> None:
    mine.put("empty")
    mine.holding("c", "kept", "listed")
    said = mine.ask(method, path, "bulk-delete", body=b"/c/listed\n", Content_Type="text/plain", **JSON)
    assert (said.status, said.json()["Number Deleted"], said.json()["Errors"]) == (200, 1, [])
    assert (mine.names(), mine.names("c")) == (["c", "empty"], ["kept"])
    nothing = mine.ask(method, path, "bulk-delete", body=b"", **JSON).json()
    assert nothing["Response Status"] == "400 Bad Request"
    assert Account(reader, mine.project_id).ask(method, path, "bulk-delete", body=b"/c/kept").status == 403
    assert (mine.names(), mine.names("c")) == (["c", "empty"], ["kept"])


def test_who_may_write_to_a_container_sends_lists_of_what_is_in_it(mine: Account, alt: Client) -> None:
    mine.holding("c", "a")
    mine.holding("d", "a")
    theirs = Account(alt)
    mine.post("c", X_Container_Write=f"{theirs.project_id}:*")
    sent = Account(alt, mine.project_id).ask("DELETE", "c/x", "bulk-delete", body=b"/c/a\n/d/a\n", **JSON).json()
    assert (sent["Number Deleted"], sent["Errors"]) == (1, [["/d/a", "403 Forbidden"]])
    assert (mine.names("c"), mine.names("d")) == ([], ["a"])


def test_a_list_deletes_as_single_deletions_do(mine: Account) -> None:
    mine.put("old")
    mine.put("kept", X_Versions_Enabled="true")
    mine.put("history", X_History_Location="old")
    body = b"/kept/none\n/history/none\n"
    said = mine.ask("POST", "", "bulk-delete", body=body, Content_Type="text/plain", **JSON).json()
    assert (said["Number Deleted"], said["Number Not Found"]) == (0, 2)
    assert len(mine.get("kept", "versions").json()) == len(mine.names("old")) == 1  # the markers
    mine.post("kept", X_Versions_Enabled="false")
    mine.put("kept/o", b"data")
    body = b"/kept/o\n/kept/o\n"
    said = mine.ask("POST", "", "bulk-delete", body=body, Content_Type="text/plain", **JSON).json()
    assert (said["Number Deleted"], said["Number Not Found"]) == (1, 1)
    assert [each["name"] for each in mine.get("kept", "versions").json()] == ["none"]
