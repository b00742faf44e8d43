"""Server certificates in a folder, reloaded when they change."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import grpc

from kanister_py.core.errors import CertificatesUnreadable

_FILES = ("tls.key", "tls.crt", "ca.crt")


class ServerCertificates:
    """tls.crt, tls.key and ca.crt of a server, reloaded when they change.

    They are checked for every new connection, so a renewed certificate needs no restart.
    Files that are unreadable or incomplete do not replace the current certificate.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = self._contents()
        self._configuration(self._read)

    def credentials(self) -> Any:
        """Return gRPC's server credentials: callers must present a certificate of the same CA."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(self._read), self._renewed, require_client_authentication=True
        )

    def _contents(self) -> tuple[bytes, ...]:
        try:
            return tuple((self._folder / name).read_bytes() for name in _FILES)
        except OSError as error:
            name = Path(str(error.filename)).name
            raise CertificatesUnreadable(str(self._folder), f"{name}: {error.strerror}") from None

    def _configuration(self, read: tuple[bytes, ...]) -> Any:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        key, certificate, authority = read
        try:
            own = x509.load_pem_x509_certificate(certificate)
            loaded = serialization.load_pem_private_key(key, None)
            x509.load_pem_x509_certificates(authority)
        except (ValueError, TypeError) as error:
            raise CertificatesUnreadable(str(self._folder), str(error).split("\n")[0]) from None
        # gRPC does not report a key of another certificate, but no connection would succeed.
        if loaded.public_key() != own.public_key():
            raise CertificatesUnreadable(str(self._folder), "tls.key is not the key of tls.crt")
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)

    def _renewed(self) -> Any:
        try:
            read = self._contents()
            if read == self._read:
                return None
            configuration = self._configuration(read)
        except CertificatesUnreadable as error:
            logging.getLogger(__name__).warning("%s; the ones before stay in use", error.message)
            return None
        self._read = read
        return configuration
