"""Exit with 0 if a SuperLink or a SuperNode answers, else with 1 and the reason.

healthy.py https://superlink:9093/health /run/secrets/ca.crt
"""

import ssl
import sys
import urllib.request

SECONDS = 5.0


def check(url: str, authority: str | None = None) -> None:
    """Ask a URL; over TLS, only a server that the authority signed will do."""
    context = ssl.create_default_context(cafile=authority) if authority else None
    urllib.request.urlopen(url, timeout=SECONDS, context=context).close()


if __name__ == "__main__":
    try:
        check(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
