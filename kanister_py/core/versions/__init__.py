"""Versions of functions: SemVer, the record of versions, and what a release makes of one."""
