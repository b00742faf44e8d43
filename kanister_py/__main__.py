"""Entry point of `python -m kanister_py`."""

import sys

from kanister_py.cli.main import main

sys.exit(main())
