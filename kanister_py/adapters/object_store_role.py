"""Roles of AWS, taken on with an access key: keys that expire, for what the role may do."""

from __future__ import annotations

import hashlib
import os
import re
from urllib.parse import urlencode

from kanister_py.adapters.object_store_errors import refusal_of
from kanister_py.adapters.object_store_http import Now, StoreHttp
from kanister_py.adapters.object_store_s3_parts import DEFAULT_REGION, Signer
from kanister_py.core.objects.locations import Credential, Location

_SECONDS = 12 * 3600


def taken_role(location: Location, now: Now) -> Location:
    """Take on the role that a Profile's Secret names, and give the location with its keys.

    Asked is the service of the region, or what AWS' own variable names in its place.
    """
    credential, region = location.credential, location.region or DEFAULT_REGION
    given = os.environ.get("AWS_ENDPOINT_URL_STS", "").rstrip("/")
    url = given or f"https://sts.{region}.amazonaws.com"
    body = urlencode(
        {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": credential.role,
            "RoleSessionName": "kanister-py",
            "DurationSeconds": str(_SECONDS),
        }
    ).encode()
    signer = Signer(credential.id, credential.secret, region, service="sts")
    headers = signer.headers(
        "POST",
        f"{url}/",
        {"content-type": "application/x-www-form-urlencoded"},
        hashlib.sha256(body).hexdigest(),
        now(),
    )
    answer = StoreHttp(location, 1).send("POST", f"{url}/", "", headers, body).body.decode()
    found = [
        match[1]
        for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")
        if (match := re.search(f"<{name}>(.*?)</{name}>", answer))
    ]
    if len(found) != 3:
        raise refusal_of("CredentialRefused", location, "the role gives no keys")
    identity, secret, token = found
    return location._replace(credential=Credential(identity, secret, token=token))
