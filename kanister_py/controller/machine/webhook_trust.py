"""Certificate of the webhook, and its CA bundle in the webhook configuration.

Our own authority signs the webhook's certificate. Both are in Secrets that all replicas share.
The CA bundle is written to the webhook configuration before a new certificate is used, so that
the API server always trusts every replica.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.controller.machine.periodic import PeriodicTask
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.certificates import KeyPair
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, PatchType, find

_LOG: Final = logging.getLogger(__name__)

CONFIGURATIONS: Final = GroupVersionResource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"
)
_SECRET: Final = "kanister-py-webhook"  # noqa: S105 - the name of a Secret, not its content
_CHECK_SECONDS: Final = 600.0
_RETRY_SECONDS: Final = 5.0


class WebhookSettings(NamedTuple):
    """Namespace of the Secrets, DNS names of the webhook, and its configuration."""

    namespace: str
    names: tuple[str, ...]
    configuration: str = "kanister-py"
    """Name of the ValidatingWebhookConfiguration; empty if this process serves no webhook."""
    secret: str = _SECRET
    """Secret of the certificate. The Secret of its authority is called `<secret>-authority`."""
    check_seconds: float = _CHECK_SECONDS


class WebhookTrust:
    """Certificate of the webhook, renewed in time and trusted by the API server."""

    def __init__(
        self,
        cluster: Cluster,
        keeper: CertificateKeeper,
        clock: Clock,
        settings: WebhookSettings,
        use: Callable[[KeyPair], None],
    ) -> None:
        self._cluster = cluster
        self._keeper = keeper
        self._settings = settings
        self._use = use
        self._used: KeyPair | None = None
        self._trouble = "has no certificate yet"
        # After an error, a replica with a certificate continues to use it.
        self._renewal = PeriodicTask(
            clock=clock,
            name="the renewal of the webhook's certificate",
            act=self.renew,
            every_seconds=settings.check_seconds,
            retry_seconds=_RETRY_SECONDS,
            on_error=self._note,
            level=logging.WARNING,
        )

    def start(self) -> None:
        self._renewal.start()

    def close(self) -> None:
        self._renewal.close()

    def check(self) -> str:
        """Return why there is no certificate; empty if there is one."""
        return self._trouble if self._used is None else ""

    def renew(self) -> None:
        """Renew the certificate if necessary, update the CA bundle, then use the certificate."""
        settings = self._settings
        authority = self._keeper.ensure_authority(
            settings.namespace, f"{settings.secret}-authority"
        )
        if settings.configuration:
            self._write_bundle(authority.bundle)
        pair = self._keeper.ensure_certificate(
            settings.namespace, settings.secret, settings.names, authority
        )
        if pair != self._used:
            self._use(pair)
            self._used = pair

    def _write_bundle(self, bundle: str) -> None:
        name = self._settings.configuration
        configuration = find(self._cluster, CONFIGURATIONS, name)
        if configuration is None:
            # The chart that is being installed may create it later.
            _LOG.info("ValidatingWebhookConfiguration %s does not exist yet", name)
            return
        encoded = base64.b64encode(bundle.encode()).decode()
        webhooks = configuration.get("webhooks") or ()
        stale = _stale(webhooks, encoded)
        if not stale:
            return
        patch = [
            # If another client has changed the list, the next run repeats the patch.
            {
                "op": "test",
                "path": "/metadata/resourceVersion",
                "value": configuration["metadata"]["resourceVersion"],
            },
            *(
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded}
                for index in stale
            ),
        ]
        self._cluster.patch(CONFIGURATIONS, name, patch, patch_type=PatchType.JSON)
        _LOG.info("The API server trusts the webhook's authority now")

    def _note(self, error: KanisterError) -> None:
        self._trouble = error.message


def _stale(webhooks: Sequence[dict[str, object]], bundle: str) -> list[int]:
    clients = [webhook.get("clientConfig") for webhook in webhooks]
    return [
        index
        for index, client in enumerate(clients)
        if isinstance(client, dict) and client.get("caBundle") != bundle
    ]
