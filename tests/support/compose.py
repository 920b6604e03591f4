"""The compose file of deploy/, read as Compose does."""

import re

import yaml

from support.commands import ROOT

DEPLOY = ROOT / "deploy"


def read_compose(**variables):
    """The file with its variables put in, ``${NAME:-default}``."""

    def value(match):
        return variables.get(match[1], match[2])

    text = (DEPLOY / "compose.yaml").read_text()
    return yaml.safe_load(re.sub(r"\$\{(\w+):-([^}]*)\}", value, text))


def manifests():
    """Every object of the Kubernetes manifests by kind and name."""
    documents = [
        document
        for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}
