"""Calls of s3fs and smart_open, a function each: `s3fs_calls.py` lists them, `s3fs_calls.py NAME` makes one."""

import filecmp
import gzip
import os
import secrets
import sys
from pathlib import Path

ENDPOINT = os.environ.get("CLOUD_S3", "")
BUCKET = f"b-{secrets.token_hex(4)}"


def filesystem(**more):
    import s3fs

    made = s3fs.S3FileSystem(client_kwargs={"endpoint_url": ENDPOINT}, **more)
    made.mkdir(BUCKET)
    return made


def buckets_are_made_listed_and_removed():
    fs = filesystem()
    assert BUCKET in fs.ls("")
    fs.rmdir(BUCKET)
    assert BUCKET not in fs.ls("", refresh=True)


def bytes_are_written_and_read_back():
    fs = filesystem()
    for name in ("a b/é", "percent%", "plus+&=?#", "empty"):
        data = b"" if name == "empty" else name.encode() * 1000
        fs.pipe(f"{BUCKET}/{name}", data)
        assert fs.cat(f"{BUCKET}/{name}") == data
        assert fs.size(f"{BUCKET}/{name}") == len(data)


def ranges_and_seeks():
    fs = filesystem()
    data = secrets.token_bytes(3_000_000)
    fs.pipe(f"{BUCKET}/o", data)
    assert fs.cat_file(f"{BUCKET}/o", start=10, end=20) == data[10:20]
    assert fs.cat_ranges([f"{BUCKET}/o"] * 2, [0, -5], [3, None])[0] == data[:3]
    with fs.open(f"{BUCKET}/o", block_size=5 * 2**20) as file:
        file.seek(-100, 2)
        assert file.read() == data[-100:]


def what_is_large_comes_in_parts():
    fs = filesystem()
    fs.put("here/large", f"{BUCKET}/large")
    fs.get(f"{BUCKET}/large", "back")
    assert filecmp.cmp("here/large", "back", shallow=False)
    with fs.open(f"{BUCKET}/streamed", "wb", block_size=5 * 2**20) as to, open("here/large", "rb") as from_:
        to.write(from_.read())
    assert fs.checksum(f"{BUCKET}/streamed")
    assert fs.cat(f"{BUCKET}/streamed") == Path("here/large").read_bytes()


def an_upload_that_is_given_up_leaves_nothing():
    fs = filesystem()
    file = fs.open(f"{BUCKET}/o", "wb", block_size=5 * 2**20)
    file.write(b"x" * 6 * 2**20)
    file.discard()
    assert not fs.exists(f"{BUCKET}/o")
    assert fs.list_multipart_uploads(BUCKET) == []


def appending():
    fs = filesystem()
    for size in (10, 6 * 2**20):
        fs.pipe(f"{BUCKET}/o", b"x" * size)
        with fs.open(f"{BUCKET}/o", "ab") as file:
            file.write(b"end")
        assert fs.cat(f"{BUCKET}/o") == b"x" * size + b"end"


def trees_go_up_and_down():
    fs = filesystem()
    fs.put("here/", f"{BUCKET}/tree/", recursive=True)
    assert len(fs.find(f"{BUCKET}/tree")) == 9
    assert {each.rpartition("/")[2] for each in fs.ls(f"{BUCKET}/tree")} == {"a b", "c", "empty", "large"}
    assert fs.glob(f"{BUCKET}/tree/c/[1-3]") == [f"{BUCKET}/tree/c/{number}" for number in (1, 2, 3)]
    assert [len(each[2]) for each in fs.walk(f"{BUCKET}/tree/c")] == [5]
    assert fs.du(f"{BUCKET}/tree/c") == 70000 * 15
    fs.get(f"{BUCKET}/tree/", "down/", recursive=True)
    compared = filecmp.dircmp("here", "down")
    assert not (compared.left_only or compared.right_only or compared.diff_files)
    fs.rm(f"{BUCKET}/tree", recursive=True)
    assert fs.find(BUCKET) == []


def copies_and_moves():
    fs = filesystem()
    fs.put("here/large", f"{BUCKET}/one")
    fs.copy(f"{BUCKET}/one", f"{BUCKET}/two é")
    fs.mv(f"{BUCKET}/two é", f"{BUCKET}/three")
    assert sorted(fs.ls(BUCKET, refresh=True)) == [f"{BUCKET}/one", f"{BUCKET}/three"]
    assert fs.cat(f"{BUCKET}/three") == Path("here/large").read_bytes()


def metadata_and_tags():
    fs = filesystem()
    with fs.open(f"{BUCKET}/o", "wb", Metadata={"color": "red"}, ContentType="text/x") as file:
        file.write(b"data")
    assert fs.metadata(f"{BUCKET}/o") == {"color": "red"}
    assert fs.info(f"{BUCKET}/o")["ContentType"] == "text/x"
    fs.setxattr(f"{BUCKET}/o", color="blue")
    assert fs.getxattr(f"{BUCKET}/o", "color") == "blue"
    fs.put_tags(f"{BUCKET}/o", {"a": "b"})
    fs.put_tags(f"{BUCKET}/o", {"c": "d"}, mode="m")
    assert fs.get_tags(f"{BUCKET}/o") == {"a": "b", "c": "d"}


def versions():
    fs = filesystem(version_aware=True)
    fs.call_s3("put_bucket_versioning", Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    fs.pipe(f"{BUCKET}/o", b"one")
    first = fs.info(f"{BUCKET}/o", refresh=True)["VersionId"]
    fs.pipe(f"{BUCKET}/o", b"two")
    assert len(fs.object_version_info(f"{BUCKET}/o")) == 2
    assert fs.cat(f"{BUCKET}/o", version_id=first) == b"one"


def signed_addresses():
    from urllib.request import urlopen

    fs = filesystem()
    fs.pipe(f"{BUCKET}/a b", b"data")
    assert urlopen(fs.sign(f"{BUCKET}/a b")).read() == b"data"


def exclusive_writes():
    fs = filesystem()
    fs.pipe(f"{BUCKET}/o", b"one")
    try:
        fs.pipe_file(f"{BUCKET}/o", b"two", mode="create")
    except OSError:  # which one depends on the release
        assert fs.cat(f"{BUCKET}/o") == b"one"
    else:
        raise AssertionError("it was written over")


def what_is_not_there_is_said():
    fs = filesystem()
    for path in (f"{BUCKET}/none", "no-such-bucket-anywhere/none"):
        assert not fs.exists(path)
        try:
            fs.cat(path)
        except FileNotFoundError:
            continue
        raise AssertionError(path)


def smart_open_reads_and_writes():
    import boto3
    from smart_open import open as smart

    filesystem()
    given = {"client": boto3.client("s3", endpoint_url=ENDPOINT)}
    data = secrets.token_bytes(7 * 2**20)
    with smart(f"s3://{BUCKET}/o", "wb", transport_params={**given, "min_part_size": 5 * 2**20}) as file:
        file.write(data)
    with smart(f"s3://{BUCKET}/o", "rb", transport_params=given) as file:
        assert file.read(10) == data[:10]
        file.seek(6 * 2**20)
        assert file.read() == data[6 * 2**20 :]
    with smart(f"s3://{BUCKET}/o.gz", "w", transport_params=given) as file:
        file.write("text\n" * 1000)
    with smart(f"s3://{BUCKET}/o.gz", "rb", transport_params=given, compression="disable") as file:
        assert gzip.decompress(file.read()) == b"text\n" * 1000


CALLS = {
    name: each
    for name, each in list(globals().items())
    if callable(each) and each.__module__ == __name__ and name != "filesystem"
}

if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(CALLS))
    else:
        CALLS[sys.argv[1]]()
