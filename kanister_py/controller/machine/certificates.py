"""Certificates in Secrets: authorities and signed certificates, created and renewed in time.

All replicas read the Secrets, and any of them may renew them. The Secret of an authority contains
the key pair that signs (`tls.crt` and `tls.key`), perhaps the pair that will sign next
(`next.crt` and `next.key`), and perhaps the previous certificate, which is still trusted
(`former.crt`). An authority that another program has stored is used unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import AlreadyExists, Conflict, UsageError
from kanister_py.core.kube.certificates import (
    STAGING,
    AuthorityFacts,
    AuthorityStep,
    KeyPair,
    next_authority_step,
    why_renew,
)
from kanister_py.core.kube.resources import SECRETS
from kanister_py.core.retries import retry_on_conflict
from kanister_py.ports.certificates import Certificates
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject, find

_AUTHORITY_LIFE: Final = timedelta(days=3650)
_LIFE: Final = timedelta(days=90)
_RETRIES: Final = 4
_TLS: Final = "kubernetes.io/tls"


class Authority(NamedTuple):
    """The key pair that signs, and the bundle of all trusted certificates."""

    signing: KeyPair
    bundle: str

    def __repr__(self) -> str:
        return "Authority(…)"


class CertificateKeeper:
    """Creates and renews authorities and certificates in the Secrets of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        certificates: Certificates,
        clock: Clock,
        *,
        life: timedelta = _LIFE,
        authority_life: timedelta = _AUTHORITY_LIFE,
        staging: timedelta = STAGING,
    ) -> None:
        self._cluster = cluster
        self._certificates = certificates
        self._clock = clock
        self._life = life
        self._authority_life = authority_life
        self._staging = staging

    def ensure_authority(self, namespace: str, name: str) -> Authority:
        """Return the authority of a Secret, created or rotated if necessary."""

        def read_or_renew() -> Authority:
            secret = find(self._cluster, SECRETS, name, namespace)
            data = _texts(secret)
            step = next_authority_step(self._facts(data, name), self._clock.now(), self._staging)
            if step is AuthorityStep.KEEP:
                return _authority_of(data)
            changed = self._after(step, data, name)
            self._write(secret, namespace, name, changed, {})
            return _authority_of(changed)

        return retry_on_conflict(read_or_renew, _RETRIES)

    def ensure_certificate(
        self,
        namespace: str,
        name: str,
        names: Sequence[str],
        authority: Authority,
        *,
        is_client: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> KeyPair:
        """Return the certificate of a Secret, created or renewed if necessary.

        The Secret's `ca.crt` is kept equal to the bundle of the authority.
        """

        def read_or_renew() -> KeyPair:
            secret = find(self._cluster, SECRETS, name, namespace)
            data = _texts(secret)
            pair = KeyPair(data.get("tls.crt", ""), data.get("tls.key", ""))
            renewed = self._renewed(pair, names, authority, is_client=is_client)
            if renewed is pair and data.get("ca.crt") == authority.bundle:
                return pair
            changed = {
                "tls.crt": renewed.certificate,
                "tls.key": renewed.key,
                "ca.crt": authority.bundle,
            }
            self._write(secret, namespace, name, changed, metadata or {})
            return renewed

        return retry_on_conflict(read_or_renew, _RETRIES)

    def _renewed(
        self, pair: KeyPair, names: Sequence[str], authority: Authority, *, is_client: bool
    ) -> KeyPair:
        facts = self._certificates.read(pair.certificate) if self._fits(pair) else None
        signed = self._certificates.is_signed_by(pair.certificate, authority.signing.certificate)
        if not why_renew(facts, names, self._clock.now(), is_signed_by_current=signed):
            return pair
        return self._certificates.issue(authority.signing, names, self._life, is_client=is_client)

    def _fits(self, pair: KeyPair) -> bool:
        return bool(pair.certificate) and self._certificates.fits(pair)

    def _facts(self, data: Mapping[str, str], name: str) -> AuthorityFacts:
        current = KeyPair(data.get("tls.crt", ""), data.get("tls.key", ""))
        if current.certificate and not self._fits(current):
            # Another program has stored it. Replacing it would break every client that trusts it.
            raise UsageError(
                f"Secret {name} holds an authority that cannot sign: tls.crt and tls.key do not "
                "belong together; put the right key there, or delete the Secret to get a new "
                "authority",
                reason="AuthorityUnusable",
            )
        following = KeyPair(data.get("next.crt", ""), data.get("next.key", ""))
        return AuthorityFacts(
            self._certificates.read(current.certificate),
            self._certificates.read(following.certificate) if self._fits(following) else None,
            self._certificates.read(data.get("former.crt", "")),
        )

    def _after(self, step: AuthorityStep, data: Mapping[str, str], name: str) -> dict[str, str]:
        changed = dict(data)
        if step in (AuthorityStep.CREATE, AuthorityStep.STAGE):
            pair = self._certificates.new_authority(name, self._authority_life)
            prefix = "tls" if step is AuthorityStep.CREATE else "next"
            changed[f"{prefix}.crt"], changed[f"{prefix}.key"] = pair
        elif step is AuthorityStep.PROMOTE:
            changed["former.crt"] = changed["tls.crt"]
            changed["tls.crt"] = changed.pop("next.crt")
            changed["tls.key"] = changed.pop("next.key")
        else:
            del changed["former.crt"]
        return changed

    def _write(
        self,
        secret: KubeObject | None,
        namespace: str,
        name: str,
        data: Mapping[str, str],
        metadata: Mapping[str, Any],
    ) -> None:
        """Write a Secret. Raises `Conflict` if another replica has written it first."""
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        try:
            if secret is None:
                self._cluster.create(
                    {
                        "apiVersion": "v1",
                        "kind": "Secret",
                        "metadata": {**metadata, "namespace": namespace, "name": name},
                        "type": _TLS,
                        "data": encoded,
                    }
                )
            else:
                self._cluster.replace({**secret, "data": encoded})
        except (AlreadyExists, Conflict) as error:
            message = f"Secret {namespace}/{name} changes faster than it can be written"
            raise Conflict(message) from error


def _texts(secret: KubeObject | None) -> dict[str, str]:
    data = (secret or {}).get("data") or {}
    return {key: base64.b64decode(text).decode("utf-8", "replace") for key, text in data.items()}


def _authority_of(data: Mapping[str, str]) -> Authority:
    trusted = [data[key] for key in ("tls.crt", "next.crt", "former.crt") if data.get(key)]
    bundle = "".join(text if text.endswith("\n") else f"{text}\n" for text in trusted)
    return Authority(KeyPair(data["tls.crt"], data["tls.key"]), bundle)
