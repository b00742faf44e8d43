"""Files in a volume: how to write and to list them."""

from __future__ import annotations

from typing import Any

# A pod accesses the volume, as users would.
IN_VOLUME: dict[str, Any] = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "Blueprint",
    "metadata": {"name": "in-volume"},
    "actions": {
        "do": {
            "phases": [
                {
                    "func": "PrepareData",
                    "name": "do",
                    "args": {
                        "namespace": "shop",
                        "image": "busybox",
                        "volumes": {"pictures": "/data"},
                        "failOnError": True,
                        "command": ["sh", "-e", "-c", "cd /data; {{ .Options.script }}"],
                    },
                }
            ]
        }
    },
}


FILL = """
    mkdir -p 'a b/ä' empty; printf 'one\\ntwo' > 'a b/ä/text'; : > .hidden
    head -c 300000 /dev/urandom > large; touch -d 2020-02-29 large; chmod 600 large
    ln -s 'a b/ä/text' link; chmod 750 'a b'
"""


LOOK = """
    find . -printf '%p %y %m %l %Ts\\n' | sort; find . -type f | sort | xargs -d '\\n' cksum
"""
