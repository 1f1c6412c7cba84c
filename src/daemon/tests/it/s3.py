"""What boto3 asks of a server: address, id and secret of a key are its arguments."""

import datetime
import hashlib
import hmac
import io
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

url, key, secret = sys.argv[1:]


def client(key=key, secret=secret, style="path"):
    config = Config(signature_version="s3v4", s3={"addressing_style": style}, retries={"max_attempts": 0})
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


def in_signed_pieces(name, pieces, spoilt=None):
    """Status and answer of an upload in signed pieces, of which one may have another's signature."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    parts = [date[:8], "us-east-1", "s3", "aws4_request"]
    scope, signing = "/".join(parts), ("AWS4" + secret).encode()
    for part in parts:
        signing = hmac.new(signing, part.encode(), hashlib.sha256).digest()
    sign = lambda *lines: hmac.new(signing, "\n".join(lines).encode(), hashlib.sha256).hexdigest()
    digest = lambda data: hashlib.sha256(data).hexdigest()
    headers = {
        "host": urlsplit(url).netloc,
        "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "x-amz-date": date,
        "x-amz-decoded-content-length": str(sum(map(len, pieces))),
    }
    names = ";".join(headers)
    lines = ["PUT", "/default/" + name, "", *(f"{key}:{value}" for key, value in headers.items()), "", names]
    canonical = "\n".join([*lines, headers["x-amz-content-sha256"]]).encode()
    last = sign("AWS4-HMAC-SHA256", date, scope, digest(canonical))
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={last}"
    body = b""
    for number, piece in enumerate([*pieces, b""]):
        last = sign("AWS4-HMAC-SHA256-PAYLOAD", date, scope, last, digest(b""), digest(piece))
        told = "0" * 64 if number == spoilt else last
        body += f"{len(piece):x};chunk-signature={told}\r\n".encode() + piece + b"\r\n"
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

for algorithm in ["CRC32", "SHA1", "SHA256"]:
    s3.put_object(**here, Key="sum.bin", Body=b"x" * 300_000, ChecksumAlgorithm=algorithm)
    assert s3.head_object(**here, Key="sum.bin", ChecksumMode="ENABLED")["Checksum" + algorithm]
    assert s3.get_object(**here, Key="sum.bin")["Body"].read() == b"x" * 300_000

signed = s3.generate_presigned_url("get_object", Params={**here, "Key": name}, ExpiresIn=60)
assert urllib.request.urlopen(signed).read() == b"# Odd\n"
signed = s3.generate_presigned_url("put_object", Params={**here, "Key": "signed.txt"}, ExpiresIn=60)
urllib.request.urlopen(urllib.request.Request(signed, data=b"signed", method="PUT"))
assert s3.get_object(**here, Key="signed.txt")["Body"].read() == b"signed"

large = bytes(range(256)) * 80_000
s3.upload_fileobj(io.BytesIO(large), "default", "large.bin")
back = io.BytesIO()
s3.download_fileobj("default", "large.bin", back)
assert back.getvalue() == large
assert s3.head_object(**here, Key="large.bin")["ETag"].endswith('-3"')

s3.copy_object(**here, Key="copy.md", CopySource={**here, "Key": name})
assert s3.head_object(**here, Key="copy.md")["Metadata"] == said
s3.put_object(**here, Key="copy.md", Body=b"# Anew\n")
versions = s3.list_object_versions(**here, Prefix="copy.md")["Versions"]
assert [version["IsLatest"] for version in versions] == [True, False], versions
old = s3.get_object(**here, Key="copy.md", VersionId=versions[1]["VersionId"])
assert old["Body"].read() == b"# Odd\n"
gone = s3.delete_objects(**here, Delete={"Objects": [{"Key": "copy.md"}, {"Key": "never.md"}]})
assert len(gone["Deleted"]) == 2, gone

pieces = [b"x" * 70_000, b"y" * 70_000]
assert in_signed_pieces("pieces.bin", pieces) == (200, "")
assert s3.get_object(**here, Key="pieces.bin")["Body"].read() == b"".join(pieces)
status, told = in_signed_pieces("spoilt.bin", pieces, spoilt=1)
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

refused("SignatureDoesNotMatch", lambda: client(secret="wrong").list_buckets())
refused("InvalidAccessKeyId", lambda: client(key="ffffffffffff").list_buckets())
refused("NoSuchKey", lambda: s3.get_object(**here, Key="copy.md"))
refused("NoSuchBucket", lambda: s3.list_objects_v2(Bucket="nowhere"))
refused("InvalidArgument", lambda: s3.put_object(**here, Key="a/../../b", Body=b""))
refused("KeyTooLongError", lambda: s3.put_object(**here, Key="x" * 300, Body=b""))
refused("NoSuchKey", lambda: s3.get_object(**here, Key=".svc/state/s3.key"))
refused("PreconditionFailed", lambda: s3.put_object(**here, Key=name, Body=b"", IfNoneMatch="*"))
refused("NotImplemented", lambda: s3.get_bucket_acl(**here))
