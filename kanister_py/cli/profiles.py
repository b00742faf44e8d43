"""Profiles on the command line: from a file or a cluster, with the Secrets they refer to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kanister_py.cli.connection import add_connection, is_connected, open_connection
from kanister_py.cli.parser import CommandLineError

if TYPE_CHECKING:
    from kanister_py.core.objects.locations import Location


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Take what says which Profile is meant."""
    parser.add_argument("profile", nargs="?", default="", metavar="[NAMESPACE/]NAME")
    parser.add_argument(
        "-f", "--file", action="append", default=[], metavar="FILE",
        help="read the Profile and its Secrets from files, `-` for stdin",
    )  # fmt: skip
    add_connection(parser)
    parser.add_argument("-n", "--namespace", default="", help="the namespace of the Profile")


def read_profile(args: argparse.Namespace) -> Location:
    """Read the Profile that the command line names, with its credential."""
    from kanister_py.core.objects.locations import read_location
    from kanister_py.core.templates.facts import resolve_profile

    if bool(args.profile) == bool(args.file):
        raise CommandLineError("Name a Profile of a cluster, or a file with --file")
    profile, secrets = _from_files(args) if args.file else _from_cluster(args)
    found = resolve_profile(profile, secrets)
    pair = (found.key_pair.id, found.key_pair.secret) if found.key_pair else None
    return read_location(found.location, pair, found.secret, skip_tls_verify=found.skip_ssl_verify)


def _from_cluster(args: argparse.Namespace) -> tuple[Any, dict[Any, Any]]:
    from kanister_py.core.actionsets.references import parse_place
    from kanister_py.core.objects.resources import PROFILES
    from kanister_py.core.templates.facts import needs_of_profile

    with open_connection(args) as cluster:
        place = parse_place(args.profile, args.namespace)
        profile = cluster.get(PROFILES, place.name, namespace=place.namespace)
        needs = needs_of_profile(profile)
        return profile, {
            each: cluster.get(each.resource, each.name, namespace=each.namespace) for each in needs
        }


def _from_files(args: argparse.Namespace) -> tuple[Any, dict[Any, Any]]:
    from base64 import b64encode

    from kanister_py.cli.inputs import objects_in
    from kanister_py.core.objects.locations import InvalidProfile
    from kanister_py.core.templates.facts import needs_of_profile

    if is_connected(args):
        raise CommandLineError("--file goes with no cluster")
    objects = list(objects_in(args.file))
    profiles = [each for each in objects if each.get("kind") == "Profile"]
    if len(profiles) != 1:
        raise InvalidProfile(f"{len(profiles)} Profiles are in {', '.join(args.file)}; give one")
    _refuse_unknown_keys(profiles[0])
    found: dict[Any, Any] = {}
    for need in needs_of_profile(profiles[0]):
        for each in objects:
            if each.get("kind") == "Secret" and each["metadata"]["name"] == need.name:
                plain = each.get("stringData") or {}
                data = {key: b64encode(str(text).encode()).decode() for key, text in plain.items()}
                found[need] = {**each, "data": {**(each.get("data") or {}), **data}}
        if need not in found:
            raise InvalidProfile(
                f"Secret {need.namespace}/{need.name}, which the Profile refers to, is in no file"
            )
    return profiles[0], found


def _refuse_unknown_keys(profile: Any) -> None:
    """Name what is misspelt: an API server would drop it without a word."""
    from kanister_py.core.objects.documents import text_of_path
    from kanister_py.core.objects.locations import InvalidProfile, unknown_keys_of_profile
    from kanister_py.core.objects.reading import UnknownKey

    unknown = [UnknownKey(*each) for each in unknown_keys_of_profile(profile)]
    if unknown:
        told = "; ".join(f"{text_of_path(each.path)}{each.meant}" for each in unknown)
        raise InvalidProfile(f"Nothing reads these keys of the Profile: {told}")
