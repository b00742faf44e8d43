"""`python -m kanister_py` is `kanister-py`."""

import sys

from kanister_py.cli.main import main

sys.exit(main())
