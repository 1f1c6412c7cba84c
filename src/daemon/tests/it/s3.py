"""What boto3 asks of a server: address, id and secret of a key are its arguments."""

import base64
import datetime
import hashlib
import hmac
import io
import socket
import sys
import urllib.error
import urllib.request
import zlib
from urllib.parse import urlencode, urlsplit

import boto3
from botocore.compat import HAS_CRT
from botocore.config import Config
from botocore.exceptions import ClientError

url, key, secret = sys.argv[1:]


def client(key=key, secret=secret, style="path", url=url, version="s3v4"):
    config = Config(signature_version=version, s3={"addressing_style": style}, retries={"max_attempts": 0})
    return boto3.client(
        "s3", endpoint_url=url, aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1", config=config
    )


def refused(code, ask):
    try:
        ask()
    except ClientError as error:
        told = error.response["Error"]["Code"]
        assert told == code, f"{told} instead of {code}"
    else:
        raise AssertionError(f"not refused with {code}")


def signing(date):
    """What a signature of that moment is for, and what makes it of lines."""
    parts = [date[:8], "us-east-1", "s3", "aws4_request"]
    derived = ("AWS4" + secret).encode()
    for part in parts:
        derived = hmac.new(derived, part.encode(), hashlib.sha256).digest()
    return "/".join(parts), lambda *lines: hmac.new(derived, "\n".join(lines).encode(), hashlib.sha256).hexdigest()


def signed_before(name, age, lasts):
    """Status and answer of a read by an address that was signed so many seconds ago, for so many."""
    moment = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=age)
    date = moment.strftime("%Y%m%dT%H%M%SZ")
    scope, sign = signing(date)
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{key}/{scope}",
        "X-Amz-Date": date,
        "X-Amz-Expires": str(lasts),
        "X-Amz-SignedHeaders": "host",
    }
    query = urlencode(query)
    host = urlsplit(url).netloc
    canonical = "\n".join(["GET", "/default/" + name, query, "host:" + host, "", "host", "UNSIGNED-PAYLOAD"]).encode()
    signature = sign("AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical).hexdigest())
    try:
        return urllib.request.urlopen(f"{url}/default/{name}?{query}&X-Amz-Signature={signature}").status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def in_pieces(name, pieces, kind="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", spoilt=None, promised=None, trailer=None):
    """Status and answer of an upload in pieces, of which one may have another's signature, with a checksum behind them."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope, sign = signing(date)
    digest = lambda data: hashlib.sha256(data).hexdigest()
    headers = {
        "host": urlsplit(url).netloc,
        "x-amz-content-sha256": kind,
        "x-amz-date": date,
        "x-amz-decoded-content-length": str(sum(map(len, pieces))),
    }
    if promised:
        headers["x-amz-trailer"] = promised
    names = ";".join(headers)
    lines = ["PUT", "/default/" + name, "", *(f"{key}:{value}" for key, value in headers.items()), "", names]
    canonical = "\n".join([*lines, kind]).encode()
    last = sign("AWS4-HMAC-SHA256", date, scope, digest(canonical))
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={last}"
    body, is_signed = b"", not kind.startswith("STREAMING-UNSIGNED")
    for number, piece in enumerate([*pieces, b""]):
        last = sign("AWS4-HMAC-SHA256-PAYLOAD", date, scope, last, digest(b""), digest(piece))
        told = "0" * 64 if number == spoilt else last
        body += f"{len(piece):x}".encode() + (f";chunk-signature={told}" if is_signed else "").encode() + b"\r\n" + piece
        # Behind the last piece come the trailers, each in its line.
        body += b"\r\n" if piece or not trailer else b""
    if trailer:
        body += f"{trailer}\r\n".encode()
        if is_signed:
            last = sign("AWS4-HMAC-SHA256-TRAILER", date, scope, last, digest(f"{trailer}\n".encode()))
            body += f"x-amz-trailer-signature:{last if spoilt != 'trailer' else '0' * 64}\r\n".encode()
        body += b"\r\n"
    headers["content-encoding"] = "aws-chunked"
    request = urllib.request.Request(f"{url}/default/{name}", data=body, method="PUT", headers=headers)
    try:
        return urllib.request.urlopen(request).status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


s3, here = client(), {"Bucket": "default"}
assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["default"]
name = "odd/é a+b & 日本%41.md"
s3.put_object(**here, Key=name, Body=b"# Odd\n", Metadata={"mood": "calm"}, Tagging="a=1")
got = s3.get_object(**here, Key=name)
# The hash of the content, as git and every other door have it, is told with what the client said.
said = {"mood": "calm", "svc-etag": hashlib.sha1(b"blob 6\0# Odd\n").hexdigest()}
assert (got["Body"].read(), got["Metadata"], got["TagCount"]) == (b"# Odd\n", said, 1), got
assert [item["Key"] for item in s3.list_objects_v2(**here, Prefix="odd/")["Contents"]] == [name]

# What only `awscrt` sums up, which scripts/test.sh installs.
for algorithm in ["CRC32", "SHA1", "SHA256", *(["CRC32C", "CRC64NVME"] if HAS_CRT else [])]:
    s3.put_object(**here, Key="sum.bin", Body=b"x" * 300_000, ChecksumAlgorithm=algorithm)
    assert s3.head_object(**here, Key="sum.bin", ChecksumMode="ENABLED")["Checksum" + algorithm]
    assert s3.get_object(**here, Key="sum.bin")["Body"].read() == b"x" * 300_000

for version in ["s3v4", None]:
    # By itself boto3 signs addresses as it did of old.
    signed = client(version=version).generate_presigned_url("get_object", Params={**here, "Key": name}, ExpiresIn=60)
    assert ("AWSAccessKeyId=" in signed) == (version is None), signed
    assert urllib.request.urlopen(signed).read() == b"# Odd\n"
signed = s3.generate_presigned_url("put_object", Params={**here, "Key": "signed.txt"}, ExpiresIn=60)
try:
    added = {"x-amz-copy-source": "/default/sum.bin"}
    urllib.request.urlopen(urllib.request.Request(signed, method="PUT", headers=added))
    raise AssertionError("a header was taken that nobody signed")
except urllib.error.HTTPError as error:
    assert error.code == 403 and b"not signed" in error.read()
urllib.request.urlopen(urllib.request.Request(signed, data=b"signed", method="PUT"))
assert s3.get_object(**here, Key="signed.txt")["Body"].read() == b"signed"
assert signed_before("signed.txt", age=3_000, lasts=3_600) == (200, "")
status, told = signed_before("signed.txt", age=3_000, lasts=60)
assert status == 403 and "<Code>AccessDenied</Code>" in told and "expired" in told, (status, told)

large = bytes(range(256)) * 80_000
s3.upload_fileobj(io.BytesIO(large), "default", "large.bin")
back = io.BytesIO()
s3.download_fileobj("default", "large.bin", back)
assert back.getvalue() == large
head = s3.head_object(**here, Key="large.bin")
assert head["ETag"].endswith('-3"'), head
# Part by part, as the SDK of Java downloads.
first = s3.head_object(**here, Key="large.bin", PartNumber=1)
assert (first["PartsCount"], first["ResponseMetadata"]["HTTPStatusCode"]) == (3, 206), first
for version in [{}, {"VersionId": head["VersionId"]}]:
    parts = [
        s3.get_object(**here, Key="large.bin", PartNumber=number, IfMatch=first["ETag"], **version)
        for number in range(1, first["PartsCount"] + 1)
    ]
    assert {part["ResponseMetadata"]["HTTPStatusCode"] for part in parts} == {206}, parts
    assert parts[1]["ContentRange"] == f"bytes {8 << 20}-{(16 << 20) - 1}/{len(large)}", parts[1]
    assert b"".join(part["Body"].read() for part in parts) == large
refused("InvalidPartNumber", lambda: s3.get_object(**here, Key="large.bin", PartNumber=4))

s3.copy_object(**here, Key="copy.md", CopySource={**here, "Key": name})
assert s3.head_object(**here, Key="copy.md")["Metadata"] == said
summed = s3.copy_object(**here, Key="sum.copy", CopySource={**here, "Key": "sum.bin"}, ChecksumAlgorithm="SHA1")
sha1 = base64.b64encode(hashlib.sha1(b"x" * 300_000).digest()).decode()
assert summed["CopyObjectResult"]["ChecksumSHA1"] == sha1, summed
assert s3.head_object(**here, Key="sum.copy", ChecksumMode="ENABLED")["ChecksumSHA1"] == sha1
s3.put_object(**here, Key="copy.md", Body=b"# Anew\n")
versions = s3.list_object_versions(**here, Prefix="copy.md")["Versions"]
assert [version["IsLatest"] for version in versions] == [True, False], versions
old = s3.get_object(**here, Key="copy.md", VersionId=versions[1]["VersionId"])
assert old["Body"].read() == b"# Odd\n"
gone = s3.delete_objects(**here, Delete={"Objects": [{"Key": "copy.md"}, {"Key": "never.md"}]})
assert len(gone["Deleted"]) == 2, gone

pieces = [b"x" * 70_000, b"y" * 70_000]
assert in_pieces("pieces.bin", pieces) == (200, "")
assert s3.get_object(**here, Key="pieces.bin")["Body"].read() == b"".join(pieces)
status, told = in_pieces("spoilt.bin", pieces, spoilt=1)
assert status == 403 and "<Code>SignatureDoesNotMatch</Code>" in told, (status, told)
refused("NoSuchKey", lambda: s3.get_object(**here, Key="spoilt.bin"))

whole = b"".join(pieces)
sum_of = lambda data: base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
promised, trailer = "x-amz-checksum-crc32", f"x-amz-checksum-crc32:{sum_of(whole)}"
wrong = f"x-amz-checksum-crc32:{sum_of(b'else')}"
for kind in ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"]:
    trailed = kind.lower() + ".bin"
    status, told = in_pieces(trailed, pieces, kind, promised=promised, trailer=wrong)
    assert status == 400 and "<Code>BadDigest</Code>" in told, (kind, status, told)
    for missing in [None, f"x-amz-checksum-sha256:{sum_of(whole)}"]:
        status, told = in_pieces(trailed, pieces, kind, promised=promised, trailer=missing)
        assert status == 400 and "<Code>MalformedTrailerError</Code>" in told, (kind, missing, status, told)
    refused("NoSuchKey", lambda: s3.get_object(**here, Key=trailed))
    assert in_pieces(trailed, pieces, kind, promised=promised, trailer=trailer) == (200, "")
    got = s3.get_object(**here, Key=trailed, ChecksumMode="ENABLED")
    assert (got["ChecksumCRC32"], got["Body"].read()) == (sum_of(whole), whole), got
    assert "ContentEncoding" not in got, got
status, told = in_pieces("spoilt.bin", pieces, kind, promised=promised, trailer=trailer, spoilt="trailer")
assert status == 403 and "<Code>SignatureDoesNotMatch</Code>" in told, (status, told)
refused("NoSuchKey", lambda: s3.get_object(**here, Key="spoilt.bin"))

for key in ["L/z/1", "L/z/2", "L/zz/1"]:
    s3.put_object(**here, Key=key, Body=b"x")
pages = s3.get_paginator("list_objects_v2").paginate(
    **here, Prefix="L/", Delimiter="/", StartAfter="L/z/1", PaginationConfig={"PageSize": 1}
)
assert [told["Prefix"] for page in pages for told in page["CommonPrefixes"]] == ["L/z/", "L/zz/"]
owned = s3.list_objects_v2(**here, Prefix="L/", FetchOwner=True)["Contents"]
assert all(item["Owner"]["ID"] for item in owned), owned
newest = s3.list_object_versions(**here, Prefix="L/z/1")["Versions"][0]["VersionId"]
assert s3.head_object(**here, Key="L/z/1")["VersionId"] == newest
refused("InvalidArgument", lambda: s3.list_objects_v2(**here, ContinuationToken="!!!"))

# Buckets by name: what lies below `localhost` leads here, whoever resolves names on this machine.
resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **others: resolve(
    "127.0.0.1" if str(host).endswith("localhost") else host, *more, **others
)
by_name = client(style="virtual", url=f"http://localhost:{urlsplit(url).port}")
hosts = []
by_name.meta.events.register("before-send.s3", lambda request, **_: hosts.append(urlsplit(request.url).hostname))
by_name.put_object(**here, Key="by/name é.md", Body=b"# By name\n")
assert by_name.get_object(**here, Key="by/name é.md")["Body"].read() == b"# By name\n"
assert s3.get_object(**here, Key="by/name é.md")["Body"].read() == b"# By name\n"
assert [item["Key"] for item in by_name.list_objects_v2(**here, Prefix="by/")["Contents"]] == ["by/name é.md"]
signed = by_name.generate_presigned_url("get_object", Params={**here, "Key": "by/name é.md"}, ExpiresIn=60)
assert urllib.request.urlopen(signed).read() == b"# By name\n"
refused("NoSuchBucket", lambda: by_name.list_objects_v2(Bucket="nowhere"))
assert hosts == ["default.localhost"] * 3 + ["nowhere.localhost"], hosts

refused("SignatureDoesNotMatch", lambda: client(secret="wrong").list_buckets())
refused("InvalidAccessKeyId", lambda: client(key="ffffffffffff").list_buckets())
refused("InvalidRequest", lambda: client(version="s3").list_buckets())
refused("NoSuchKey", lambda: s3.get_object(**here, Key="copy.md"))
refused("NoSuchBucket", lambda: s3.list_objects_v2(Bucket="nowhere"))
refused("InvalidArgument", lambda: s3.put_object(**here, Key="a/../../b", Body=b""))
refused("KeyTooLongError", lambda: s3.put_object(**here, Key="x" * 300, Body=b""))
refused("NoSuchKey", lambda: s3.get_object(**here, Key=".svc/state/s3.key"))
refused("PreconditionFailed", lambda: s3.put_object(**here, Key=name, Body=b"", IfNoneMatch="*"))
refused("NotImplemented", lambda: s3.get_bucket_acl(**here))
