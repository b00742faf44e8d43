"""Confinement: restrictions on runs outside the controller's home namespace."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from kanister_py.core.errors import UsageError

# Metadata services of clouds that are not link-local.
_METADATA: Final = frozenset(
    map(ip_address, ("168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254"))
)
_NAT64: Final = ip_network("64:ff9b::/96")


class ControllerPositionNotLent(UsageError, reason="ControllerPositionNotLent"):
    """Error for a run that needs access which only the controller's pod has."""


class Confinement(NamedTuple):
    """Restrictions on a run: its namespace, and its access to the controller's pod and network.

    `refused_addresses` are the addresses of the API server. `allowed_networks` are exceptions in
    CIDR notation, set by the operator.
    """

    namespace: str
    allows_file_locations: bool = False
    allows_ambient_credentials: bool = False
    allowed_networks: tuple[str, ...] = ()
    refused_addresses: frozenset[str] = frozenset()

    def check_address(self, address: str) -> None:
        """Raise an error if requests must not be sent to an IP address."""
        ip = _unwrapped(ip_address(address.partition("%")[0]))
        if any(ip in ip_network(network) for network in self.allowed_networks):
            return
        if (
            ip.is_loopback
            or ip.is_link_local
            or ip.is_unspecified
            or ip.is_multicast
            or ip in _METADATA
            or str(ip) in self.refused_addresses
        ):
            raise ControllerPositionNotLent(
                f"Address {ip} is closed to ActionSets of namespace {self.namespace}: loopback, "
                "link-local and the API server's addresses are reached from the controller's "
                "pod only; the operator can open it with --allow-address"
            )

    def check_proxy(self) -> None:
        """Raise an error, because a proxy would resolve and reach addresses unchecked."""
        raise ControllerPositionNotLent(
            f"useEnvironmentProxy is closed to ActionSets of namespace {self.namespace}: the "
            "proxy belongs to the controller"
        )

    def check_ambient_credentials(self, purpose: str) -> None:
        """Raise an error if cloud credentials of the controller's pod may not be used."""
        if not self.allows_ambient_credentials:
            raise ControllerPositionNotLent(
                f"{purpose} would use the cloud credentials of the controller's pod, which are "
                f"closed to ActionSets of namespace {self.namespace}; name a credential, or let "
                "the operator start the controller with --allow-ambient-credentials"
            )

    def check_file_location(self) -> None:
        """Raise an error if folders of the controller's pod may not be opened."""
        if not self.allows_file_locations:
            raise ControllerPositionNotLent(
                "A Profile of type file opens a folder of the controller's pod, which is closed "
                f"to ActionSets of namespace {self.namespace}; the operator can allow it with "
                "--allow-file-locations"
            )


def _unwrapped(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address embedded in an IPv6 address, or the address itself."""
    if isinstance(ip, IPv4Address):
        return ip
    embedded = ip.ipv4_mapped or ip.sixtofour
    if embedded is None and isinstance(_NAT64, IPv6Network) and ip in _NAT64:
        embedded = IPv4Address(int(ip) & 0xFFFFFFFF)
    return embedded or ip
