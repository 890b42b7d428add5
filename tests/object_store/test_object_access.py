"""Who reaches what: roles, access lists, signed URLs, signed forms; and nobody else."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from cloudctl.rest.site import SMALL
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.asking import Account, project_of

KEY = "secret"


@pytest.fixture
def shared(mine: Account) -> Account:
    mine.put("c")
    mine.put("c/o", b"data", X_Object_Meta_A="1", X_Object_Meta_Public_B="2")
    return mine


@pytest.fixture
def stranger(shared: Account, alt: Client) -> Account:
    return Account(alt, shared.project_id)


@pytest.fixture
def nobody(shared: Account, cloud: MemoryCloud) -> Account:
    return Account(cloud.anonymous(), shared.project_id)


CALLS = [
    ("GET", ""), ("HEAD", ""), ("POST", ""), ("GET", "c"), ("HEAD", "c"), ("PUT", "c"), ("PUT", "new"), ("POST", "c"),
    ("DELETE", "c"), ("GET", "c/o"), ("HEAD", "c/o"), ("PUT", "c/o"), ("POST", "c/o"), ("DELETE", "c/o"),
    ("GET", "none"), ("GET", "none/o"), ("PUT", "none/o"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_others_have_nothing_here(stranger: Account, nobody: Account, method: str, path: str) -> None:
    assert stranger.ask(method, path).status == 403
    assert nobody.ask(method, path).status == 401
    assert stranger.ask("COPY", "c/o", Destination="c/p").status == 403


def test_readers_read(shared: Account, reader: Client) -> None:
    rita = Account(reader, shared.project_id)
    assert (rita.get("c/o").body, rita.names("c"), rita.names()) == (b"data", ["o"], ["c"])
    for method, path in (("PUT", "c/p"), ("DELETE", "c/o"), ("POST", "c"), ("PUT", "d"), ("POST", "")):
        assert rita.ask(method, path).status == 403
    shared.post("c", X_Container_Read=".r:*")
    assert rita.head("c").headers["X-Container-Read"] is None


def test_who_reads_copies_to_where_he_may_write(shared: Account, reader: Client, alt: Client) -> None:
    rita, theirs = Account(reader, shared.project_id), Account(alt)
    to: dict[str, Any] = {"Destination": "theirs/copy", "Destination-Account": f"AUTH_{theirs.project_id}"}
    theirs.put("theirs")
    assert rita.ask("COPY", "c/o", **to).status == 403
    theirs.post("theirs", X_Container_Write=f"{shared.project_id}:*")
    assert rita.ask("COPY", "c/o", **to).status == 201
    assert theirs.get("theirs/copy").body == b"data"
    assert rita.ask("COPY", "c/o", Destination="c/copy").status == 403


def test_the_public_reads(shared: Account, nobody: Account, stranger: Account) -> None:
    shared.post("c", X_Container_Read=".r:*,.r:-bad.example.com")
    for account in (nobody, stranger):
        assert account.get("c/o").body == b"data"
        assert account.get("c").status in (401, 403)
        assert account.get("c/o", Referer="http://bad.example.com/x").status in (401, 403)
        assert account.ask("PUT", "c/o").status in (401, 403)
    assert nobody.ask("GET", "c/o", X_Auth_Token="nonsense").body == b"data"
    shared.post("c", X_Container_Read=".r:*,.rlistings")
    assert nobody.names("c") == ["o"]
    assert nobody.head("c").headers["X-Container-Read"] is None
    assert shared.head("c").headers["X-Container-Read"] == ".r:*,.rlistings"
    shared.post("c", X_Remove_Container_Read="x")
    assert nobody.get("c/o").status == 401


def test_projects_and_users(shared: Account, stranger: Account, alt: Client) -> None:
    project = project_of(alt)
    shared.post("c", X_Container_Read=f"{project}:*", X_Container_Write=f"{project}:nobody")
    assert (stranger.get("c/o").body, stranger.names("c")) == (b"data", ["o"])
    assert stranger.ask("PUT", "c/p").status == 403
    shared.post("c", X_Container_Write="*:alt")
    assert stranger.put("c/p", b"theirs").status == 201
    assert shared.get("c/p").body == b"theirs"
    assert stranger.delete("c/p").status == 204
    assert stranger.delete("c").status == 403
    own = Account(alt)
    own.put("d")
    own.put("d/q", X_Copy_From="c/o", X_Copy_From_Account=f"AUTH_{shared.project_id}")
    assert own.get("d/q").body == b"data"
    shared.post("c", X_Container_Read="")
    assert own.ask("PUT", "d/r", X_Copy_From="c/o", X_Copy_From_Account=f"AUTH_{shared.project_id}").status == 403


@pytest.mark.parametrize("value", [".r:", ".x:*", ".r:-"])
def test_lists_that_are_none(shared: Account, value: str) -> None:
    assert shared.post("c", X_Container_Read=value).status == 400
    assert shared.post("c", X_Container_Write=".r:*").status == 400


def test_nobody_is_let_in_by_the_id_of_another_as_his_name(shared: Account, cloud: MemoryCloud, alt: Client) -> None:
    """Who may make projects and users makes them of any name."""
    admin, v3 = cloud.client("admin"), "/identity/v3"
    theirs = project_of(alt)
    shared.post("c", X_Container_Read=f"{theirs}:*")

    def make(kind: str, **fields: str) -> str:
        return str(admin.post(f"{v3}/{kind}s", {kind: {"domain_id": "default", **fields}}).json()[kind]["id"])

    project_id, user_id = make("project", name=theirs), make("user", name="mallory", password="x")
    (role,) = admin.get(f"{v3}/roles?name=member").json()["roles"]
    assert admin.put(f"{v3}/projects/{project_id}/users/{user_id}/roles/{role['id']}").status == 204
    proof = {"methods": ["password"], "password": {"user": {"id": user_id, "password": "x"}}}
    wish = {"auth": {"identity": proof, "scope": {"project": {"id": project_id}}}}
    token = cloud.anonymous().post(f"{v3}/auth/tokens", wish).headers["X-Subject-Token"]
    assert Account(alt, shared.project_id).get("c/o").status == 200
    assert Account(Client(cloud, str(token)), shared.project_id).get("c/o").status == 403


def test_a_symlink_opens_nothing(shared: Account, nobody: Account) -> None:
    shared.put("open", b"", X_Container_Read=".r:*")
    shared.put("open/link", b"", X_Symlink_Target="c/o")
    shared.put("open/all", b"", X_Object_Manifest="c/o")
    assert nobody.get("open/link").status == 401
    assert nobody.get("open/all").status == nobody.head("open/all").status == 401
    assert shared.get("open/link").body == shared.get("open/all").body == b"data"


# -- signed


def signed(account: Account, method: str, path: str, key: str = KEY, *, until: float = 0, **more: Any) -> str:
    """The query of a URL that is signed; `prefix` or a digest may be given."""
    expires = int(until or account.client.cloud.clock.seconds() + 100)
    prefix, digest = more.get("prefix"), more.get("digest", "sha256")
    root = more.get("root", "/v1")
    text = f"{method}\n{expires}\n{'prefix:' if prefix else ''}{root}/AUTH_{account.project_id}/{prefix or path}"
    if "range" in more:
        text = f"ip={more['range']}\n{text}"
    signature = hmac.new(key.encode(), text.encode(), digest).hexdigest()
    query = f"temp_url_sig={signature}&temp_url_expires={expires}"
    if prefix:
        query += f"&temp_url_prefix={prefix.partition('/')[2]}"
    return query + (f"&temp_url_ip_range={more['range']}" if "range" in more else "")


@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("root", ["/v1", "/object-store/v1"])
def test_signed_urls(shared: Account, nobody: Account, digest: str, root: str) -> None:
    shared.post(X_Account_Meta_Temp_URL_Key=KEY)
    query = signed(shared, "GET", "c/o", digest=digest, root=root)
    got = nobody.get("c/o", query)
    assert (got.status, got.body) == (200, b"data")
    assert got.headers["Content-Disposition"] == "attachment; filename=\"o\"; filename*=UTF-8''o"
    assert (got.headers["X-Object-Meta-A"], got.headers["X-Object-Meta-Public-B"]) == (None, "2")
    assert nobody.get("c/o", query + "&inline").headers["Content-Disposition"] == "inline"
    assert nobody.head("c/o", query).status == 200
    for method in ("PUT", "DELETE", "POST"):
        assert nobody.ask(method, "c/o", query).status == 401


def test_what_a_signature_does_not_say(shared: Account, nobody: Account, cloud: MemoryCloud) -> None:
    shared.post("c", X_Container_Meta_Temp_URL_Key=KEY)
    shared.put("d")
    shared.put("d/o", b"other")
    good = signed(shared, "GET", "c/o")
    assert nobody.get("c/o", good).status == 200
    assert nobody.get("d/o", good).status == 401
    assert nobody.get("d/o", signed(shared, "GET", "d/o")).status == 401  # the key is another container's
    assert nobody.get("c/o", signed(shared, "GET", "c/o", "wrong")).status == 401
    assert nobody.get("c/o", signed(shared, "GET", "c/o", until=1)).status == 401
    assert nobody.get("c/o", "temp_url_sig=&temp_url_expires=").status == 401
    assert nobody.get("c/o", "temp_url_sig=zz&temp_url_expires=x").status == 401
    assert nobody.get("c/o", signed(shared, "GET", "", prefix="c/o")).status == 200
    assert nobody.get("c/o", signed(shared, "GET", "", prefix="c/x")).status == 401
    assert nobody.get("c/o", signed(shared, "GET", "c/o", range="127.0.0.0/8")).status == 200
    assert nobody.get("c/o", signed(shared, "GET", "c/o", range="10.0.0.0/8")).status == 401
    put = signed(shared, "PUT", "c/new")
    assert nobody.ask("PUT", "c/new", put, body=b"x").status == 201
    assert nobody.ask("PUT", "c/new", put, X_Object_Manifest="d/o").status == 400
    cloud.advance(101)
    assert nobody.get("c/o", good).status == 401


@pytest.mark.parametrize("size", [1, 2 * SMALL])
@pytest.mark.parametrize(("network", "status"), [("127.0.0.0/8", 201), ("10.0.0.0/8", 401)])
def test_a_signed_upload_may_come_from_its_network(
    shared: Account, nobody: Account, size: int, network: str, status: int
) -> None:
    shared.post(X_Account_Meta_Temp_URL_Key=KEY)
    query = signed(shared, "PUT", "c/new", range=network)
    assert nobody.ask("PUT", "c/new", query, body=bytes(size)).status == status


def form(
    account: Account, path: str, *, most: int = 100, count: int = 2, key: str = KEY, says: str = "", **files: bytes
) -> bytes:
    """`says`: a field that is not signed, as name=value."""
    expires = int(account.client.cloud.clock.seconds() + 100)
    text = f"/v1/AUTH_{account.project_id}/{path}\n\n{most}\n{count}\n{expires}"
    signature = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
    fields = {
        "redirect": "",
        "max_file_size": most,
        "max_file_count": count,
        "expires": expires,
        "signature": signature,
    }
    if says:
        name, _, value = says.partition("=")
        fields[name] = value
    parts = [f'Content-Disposition: form-data; name="{k}"\r\n\r\n{v}'.encode() for k, v in fields.items()]
    parts += [
        f'Content-Disposition: form-data; name="f"; filename="{name}"\r\nContent-Type: x/y\r\n\r\n'.encode() + data
        for name, data in files.items()
    ]
    return b"".join(b"--B\r\n" + part + b"\r\n" for part in parts) + b"--B--\r\n"


FORM = {"Content_Type": "multipart/form-data; boundary=B"}


def test_signed_forms(shared: Account, nobody: Account) -> None:
    assert nobody.ask("POST", "c/p", body=form(shared, "c/p", a=b"1"), **FORM).status == 401
    shared.post(X_Account_Meta_Temp_URL_Key=KEY)
    body = form(shared, "c/p", a=b"one", b=b"\r\n--x\r\n")
    assert nobody.ask("POST", "c/p", body=body, **FORM).status == 201
    assert (shared.get("c/pa").body, shared.get("c/pb").body) == (b"one", b"\r\n--x\r\n")
    assert shared.head("c/pa").headers["Content-Type"] == "x/y"
    for wrong in (
        form(shared, "c/p", key="wrong", z=b"1"), form(shared, "c/q", z=b"1"), form(shared, "c/p", most=2, z=b"123"),
        form(shared, "c/p", z=b"1")[:-20], b"", b"--B--",
    ):  # fmt: skip
        assert nobody.ask("POST", "c/p", body=wrong, **FORM).status in (400, 401, 413)
        assert shared.head("c/pz").status == 404


def test_files_of_forms_keep_their_names(shared: Account, nobody: Account) -> None:
    shared.post(X_Account_Meta_Temp_URL_Key=KEY)
    names = ("größe", "grüße", "日本", "a;b", "a%22")
    sent: dict[str, Any] = dict.fromkeys(names, b"1")
    body = form(shared, "c/p", count=5, **sent)
    assert nobody.ask("POST", "c/p", body=body, **FORM).status == 201
    assert shared.names("c", "prefix=p") == sorted(f"p{name}" for name in names)
    # As some clients still send them, though RFC 7578 says not to.
    escaped = form(shared, "c/q", z=b"1").replace(b'filename="z"', b"filename*=utf-8''gr%C3%B6%C3%9Fe")
    assert nobody.ask("POST", "c/q", body=escaped, **FORM).status == 201
    assert shared.names("c", "prefix=q") == ["qgröße"]
    for wrong in (b'filename="\xf6"', b"filename*=undefined''a", b"filename*=utf-7''%2B2AA-"):
        body = form(shared, "c/r", z=b"1").replace(b'filename="z"', wrong)
        assert nobody.ask("POST", "c/r", body=body, **FORM).status in (400, 412)
    assert shared.names("c", "prefix=r") == []


def test_files_of_forms_expire_later_or_are_refused(shared: Account, nobody: Account, cloud: MemoryCloud) -> None:
    shared.post(X_Account_Meta_Temp_URL_Key=KEY)
    shared.put("c/p", b"before")
    now = int(cloud.clock.seconds())
    for says in (f"x_delete_at={now}", "x_delete_at=0", "x_delete_after=0", "x_delete_at=soon"):
        assert nobody.ask("POST", "c", body=form(shared, "c", says=says, p=b"1"), **FORM).status == 400, says
        assert shared.get("c/p").body == b"before"
    for says in (f"x_delete_at={now + 9}", "x_delete_after=9"):
        assert nobody.ask("POST", "c", body=form(shared, "c", says=says, p=b"1"), **FORM).status == 201
        assert shared.head("c/p").headers["X-Delete-At"] == str(now + 9)


def test_the_system_sees_all(shared: Account, cloud: MemoryCloud) -> None:
    scope = {"system": {"all": True}}
    boss = Account(Client(cloud, cloud.token("admin", "admin-secret", scope)), shared.project_id)
    assert boss.get("c/o").body == b"data"
    assert boss.post(X_Account_Meta_Quota_Bytes="10", X_Account_Quota_Count="3").status == 204
    assert shared.head().headers["X-Account-Meta-Quota-Bytes"] == "10"
    assert shared.ask("PUT", "c/p", body=b"x" * 7).status == 413
    assert shared.put("c/p", b"x" * 6).status == 201
