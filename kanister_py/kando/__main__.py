"""Start of `kando` with `python -m`."""

from __future__ import annotations

from kanister_py.kando.command import main

if __name__ == "__main__":
    raise SystemExit(main())
