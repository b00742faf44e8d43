"""Admission webhook of the controller, and the certificate of all its HTTPS servers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from kanister_py.cli.parser import port, repeated, switch

if TYPE_CHECKING:
    import socket

    from kanister_py.controller.machine.webhook_trust import WebhookTrust
    from kanister_py.core.kube.certificates import KeyPair
    from kanister_py.http_api.server import TlsServer
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.wiring import Functions

_SERVICE: Final = "kanister-py"
_WEBHOOK_SERVICE: Final = "kanister-py-webhook"


def add_webhook_arguments(group: Any) -> None:
    group.add_argument(
        "--webhook-port",
        type=port,
        default=0,
        metavar="PORT",
        help="serve the admission webhook, which validates objects; default: 0, disabled",
    )
    group.add_argument(
        "--webhook-host",
        default="0.0.0.0",  # noqa: S104 - the API server calls from another machine; it is served over TLS
        metavar="HOST",
        help="address of the webhook; default: %(default)s",
    )
    group.add_argument(
        "--webhook-service",
        default=_WEBHOOK_SERVICE,
        metavar="NAME",
        help="name of the webhook's Service, for its certificate; default: %(default)s",
    )
    repeated(
        group,
        "--webhook-name",
        dest="webhook_names",
        metavar="HOST",
        help="additional name or address for the webhook's certificate; may be repeated",
    )
    group.add_argument(
        "--webhook-client-ca",
        default="",
        metavar="FILE",
        help="authorities (PEM) for client certificates; default: clients need no certificate",
    )
    group.add_argument(
        "--revisions-user",
        default="",
        metavar="USER",
        help="the only user who may change the numbers of revisions, if another process "
        "reconciles compositions; default: the user of this process",
    )
    group.add_argument(
        "--webhook-configuration",
        default="kanister-py",
        metavar="NAME",
        help="ValidatingWebhookConfiguration whose caBundle is updated; default: %(default)s",
    )


def add_tls_arguments(group: Any) -> None:
    switch(
        group,
        "--tls",
        help="serve the endpoint, the pages, health and metrics over TLS; the certificate is "
        "renewed without a restart",
    )
    group.add_argument(
        "--tls-service",
        default=_SERVICE,
        metavar="NAME",
        help="name of the endpoint's Service, for its certificate; default: %(default)s",
    )
    repeated(
        group,
        "--tls-name",
        dest="tls_names",
        metavar="HOST",
        help="additional name or address for the endpoint's certificate; may be repeated",
    )
    group.add_argument(
        "--tls-secret",
        default=_WEBHOOK_SERVICE,
        metavar="NAME",
        help="Secret of the certificate of the webhook and of --tls; the Secret of its authority "
        "is NAME-authority; default: %(default)s",
    )


def webhook_server(
    args: argparse.Namespace, functions: Functions, cluster: Cluster, listener: socket.socket
) -> TlsServer:
    """Return the HTTPS server of the admission webhook."""
    from kanister_py.core.blueprints.lint.context import Context
    from kanister_py.executor.check_access import own_user
    from kanister_py.executor.loading import load_function
    from kanister_py.http_api.admission import Validator, admission_app
    from kanister_py.http_api.server import TlsServer

    context = Context(functions.registry, is_strict=args.strict_versions, load=load_function)
    validator = Validator(
        cluster,
        context,
        (lambda: args.revisions_user) if args.revisions_user else cache(partial(own_user, cluster)),
        allows_other_namespaces=args.allow_cross_namespace_blueprints,
    )
    return TlsServer(admission_app(validator), listener, args.webhook_client_ca)


def certificate_renewal(
    args: argparse.Namespace,
    cluster: Cluster,
    clock: Clock,
    home: str,
    servers: Sequence[TlsServer],
) -> WebhookTrust:
    """Build the renewal of the certificate that all servers use; start it when they are ready."""
    from kanister_py.controller.machine.certificates import CertificateKeeper
    from kanister_py.controller.machine.webhook_trust import WebhookSettings, WebhookTrust
    from kanister_py.wiring import certificates

    def use(pair: KeyPair) -> None:
        for server in servers:
            server.use(pair)

    life = timedelta(seconds=args.certificate_life)
    return WebhookTrust(
        cluster,
        CertificateKeeper(cluster, certificates(clock), clock, life=life),
        clock,
        WebhookSettings(
            home,
            _names(args, home),
            args.webhook_configuration if args.webhook_port else "",
            args.tls_secret,
            min(600.0, life.total_seconds() / 12),
        ),
        use,
    )


def _names(args: argparse.Namespace, home: str) -> tuple[str, ...]:
    names: list[str] = []
    if args.webhook_port:
        names += [*_names_of_service(args.webhook_service, home), *args.webhook_names]
    if args.tls:
        # localhost: for `kubectl port-forward`.
        names += [*_names_of_service(args.tls_service, home), *args.tls_names, "localhost"]
    return tuple(dict.fromkeys(names))


def _names_of_service(service: str, namespace: str) -> tuple[str, str]:
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")


def temporary_certificate(clock: Clock) -> KeyPair:
    """Issue a certificate that no client trusts.

    The health server starts with it, because probes do not verify certificates and must not
    depend on the API server, which stores the real certificate.
    """
    from kanister_py.wiring import certificates

    issuer = certificates(clock)
    life = timedelta(days=1)
    return issuer.issue(issuer.new_authority("temporary", life), ["localhost"], life)
