"""What boto3 does with buckets of its own, each case in a new one: the address of a server is its argument."""

import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

config = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0})
client = boto3.client(
    "s3", endpoint_url=sys.argv[1], aws_access_key_id="ann", aws_secret_access_key="svcfs", region_name="us-east-1", config=config
)


def refused(code, status, ask):
    try:
        ask()
    except ClientError as error:
        told = error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        assert told == (code, status), f"{told} instead of {code} {status}"
        return error.response["ResponseMetadata"]
    raise AssertionError(f"not refused with {code}")


def case(run):
    bucket = "suite-" + run.__name__.replace("_", "-")
    client.create_bucket(Bucket=bucket)
    run(bucket)
    for found in client.list_objects_v2(Bucket=bucket).get("Contents", []):
        client.delete_object(Bucket=bucket, Key=found["Key"])
    client.delete_bucket(Bucket=bucket)


def put(bucket, *keys):
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=key.encode())


@case
def life(bucket):
    refused("BucketAlreadyOwnedByYou", 409, lambda: client.create_bucket(Bucket=bucket))
    assert client.list_objects_v2(Bucket=bucket, Delimiter="/")["KeyCount"] == 0
    put(bucket, "a")
    refused("BucketNotEmpty", 409, lambda: client.delete_bucket(Bucket=bucket))
    client.delete_object(Bucket=bucket, Key="a")
    client.delete_bucket(Bucket=bucket)
    refused("NoSuchBucket", 404, lambda: client.list_objects_v2(Bucket=bucket))
    refused("404", 404, lambda: client.head_bucket(Bucket=bucket))
    client.create_bucket(Bucket=bucket)
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@case
def errors(bucket):
    told = refused("NoSuchKey", 404, lambda: client.get_object(Bucket=bucket, Key="none"))
    assert told["RequestId"] and told["HostId"], told


@case
def conditions(bucket):
    tag = client.put_object(Bucket=bucket, Key="a", Body=b"one")["ETag"]
    headers = refused("304", 304, lambda: client.get_object(Bucket=bucket, Key="a", IfNoneMatch=tag))["HTTPHeaders"]
    assert headers["etag"] == tag and "last-modified" in headers, headers
    assert client.get_object(Bucket=bucket, Key="a", IfNoneMatch="ABCORZ")["Body"].read() == b"one"
    refused("PreconditionFailed", 412, lambda: client.get_object(Bucket=bucket, Key="a", IfMatch="not a tag"))
    client.put_object(Bucket=bucket, Key="a", Body=b"two", IfNoneMatch="ABCORZ")
    tag = client.put_object(Bucket=bucket, Key="a", Body=b"two", IfNoneMatch="not a tag")["ETag"]
    refused("PreconditionFailed", 412, lambda: client.put_object(Bucket=bucket, Key="a", Body=b"x", IfNoneMatch=tag))
    refused("PreconditionFailed", 412, lambda: client.put_object(Bucket=bucket, Key="a", Body=b"x", IfMatch="not a tag"))


@case
def ranges(bucket):
    put(bucket, "content")
    assert client.get_object(Bucket=bucket, Key="content", Range="bytes=0-2")["Body"].read() == b"con"
    for odd in ("bytes=0-1,3-4", "items=0-1", "nonsense", "bytes=5-2"):
        told = client.get_object(Bucket=bucket, Key="content", Range=odd)
        assert (told["ResponseMetadata"]["HTTPStatusCode"], told["Body"].read()) == (200, b"content"), odd


@case
def listings(bucket):
    put(bucket, "a/b", "a/c/d", "e", "ü/x y")
    told = client.list_objects(Bucket=bucket, Delimiter="")
    assert "Delimiter" not in told and len(told["Contents"]) == 4, told
    told = client.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [one["Prefix"] for one in told["CommonPrefixes"]] == ["a/", "ü/"], told


@case
def control_characters(bucket):
    put(bucket, "a")
    told = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "b\rc"}]})
    assert (told.get("Errors") or told["Deleted"])[0]["Key"] == "b\rc", told
    refused("MalformedXML", 400, lambda: client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "b\x01"}]}))
    assert client.head_object(Bucket=bucket, Key="a")
