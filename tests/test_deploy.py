"""What is in deploy/ fits together, and keeps to its rules; tests/flower/test_deploy.py runs it."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="PyYAML not installed")

from support.commands import ROOT
from support.compose import DEPLOY, manifests, read_compose

COMPOSE = read_compose()
SERVICES = COMPOSE["services"]
MANIFESTS = manifests()
PODS = {
    name: document["spec"]["template"]["spec"]
    for (_, name), document in MANIFESTS.items()
    if "template" in document["spec"]
}
SUPERNODES = sorted(name for name in SERVICES if name.startswith("supernode-"))
DOCKERFILES = {path.name: path.read_text() for path in DEPLOY.glob("*Dockerfile")}


def tag():
    """The version of maxfl, and the exact one of Flower that is installed with it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (flower,) = re.findall(r"^flwr==(.*)$", (ROOT / "constraints.txt").read_text(), re.M)
    return f"{version}-flwr{flower}"


def container(pod):
    (only,) = PODS[pod]["containers"]
    return only


def option(command, name):
    (value,) = (word.partition("=")[2] for word in command if word.startswith(f"--{name}="))
    return value


def test_images_have_the_versions_of_this_repository():
    images = {f"maxfl-{kind}:{tag()}" for kind in ("flower", "app")}
    assert {service["image"] for service in SERVICES.values()} == images
    assert {container(pod)["image"] for pod in PODS} == images
    assert f"FROM maxfl-flower:{tag()}\n" in DOCKERFILES["app.Dockerfile"]
    page = (DEPLOY / "README.md").read_text()
    assert set(re.findall(r"maxfl-\w+:[\w.-]+", page)) == images


def test_images_are_pinned_and_nobody_is_root_in_them():
    bases = re.findall(r"^FROM (\S+)", DOCKERFILES["Dockerfile"], re.M)
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", bases[0])
    (user,) = re.findall(r"^USER (\d+):\1$", DOCKERFILES["Dockerfile"], re.M)
    assert {service["user"] for service in SERVICES.values()} == {f"{user}:{user}"}
    for service in SERVICES.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
    for pod, spec in PODS.items():
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == int(user)
        inside = container(pod)["securityContext"]
        assert inside["readOnlyRootFilesystem"]
        assert not inside["allowPrivilegeEscalation"]


def test_no_secret_gets_into_an_image_or_the_repository():
    for name, text in DOCKERFILES.items():
        ignore = (DEPLOY / f"{name}.dockerignore").read_text().splitlines()
        assert "*" in ignore
        assert not any(line.startswith("!") and "secrets" in line for line in ignore)
        for source in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M):
            for word in source.split():
                assert f"!{word}" in ignore, f"{name} copies {word}, which its .dockerignore drops"
                assert (ROOT / word).exists()
    assert "secrets/" in (DEPLOY / ".gitignore").read_text().splitlines()
    for document in MANIFESTS.values():
        assert document["kind"] != "Secret", "made from files, by the commands of README.md"


def test_all_that_services_name_is_declared():
    for service in SERVICES.values():
        for kind in ("secrets", "configs"):
            named = [entry["source"] if isinstance(entry, dict) else entry
                     for entry in service.get(kind, [])]  # fmt: skip
            assert set(named) <= set(COMPOSE[kind])
        volumes = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert volumes <= set(COMPOSE["volumes"])
        assert set(service.get("depends_on", {})) <= set(SERVICES)
    declared = {"secrets": set(COMPOSE["secrets"]), "volumes": set(COMPOSE["volumes"])}
    assert declared["volumes"] == {"state", "results"}
    assert (DEPLOY / COMPOSE["configs"]["flwr-config"]["file"]).is_file()
    # The names of the files that make_secrets.sh makes.
    made = {"ca.crt", "server.pem", "server.key"}
    made |= {f"node-{k}{end}" for k in range(len(SUPERNODES)) for end in ("", ".pub")}
    assert declared["secrets"] == made
    assert {entry["file"] for entry in COMPOSE["secrets"].values()} == {
        f"./secrets/{name}" for name in made
    }


def test_a_container_sees_the_secrets_that_its_command_names_and_no_others():
    for name, service in SERVICES.items():
        seen = {entry["target"] if isinstance(entry, dict) else entry
                for entry in service["secrets"]}  # fmt: skip
        named = set(re.findall(r"/run/secrets/([\w.-]+)", " ".join(service["command"])))
        if "configs" in service:  # of the operator's: Flower's settings name the authority
            named |= {"ca.crt", *(word for word in seen if word.endswith(".pub"))}
        assert seen == named, name
    for k, name in enumerate(SUPERNODES):
        assert {"source": f"node-{k}", "target": "node-key"} in SERVICES[name]["secrets"]


def test_the_superlink_speaks_tls_to_known_nodes_at_one_port():
    link = SERVICES["superlink"]["command"]
    port = option(link, "port")
    assert SERVICES["superlink"]["ports"] == [f"{port}:{port}"]
    assert "--enable-supernode-auth" in link
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["superlink"]
    text = "\n".join(path.read_text() for path in DEPLOY.rglob("*.yaml"))
    assert "insecure" not in text
    address = f"superlink:{port}"
    for name in SUPERNODES:
        assert option(SERVICES[name]["command"], "superlink") == address
    settings = tomllib.loads((DEPLOY / "flwr-config.toml").read_text())["superlink"]
    assert settings["production"]["address"] == address
    assert "production" in SERVICES["app"]["command"]
    assert f"https://localhost:{port}/health" in SERVICES["superlink"]["healthcheck"]["test"]


def test_nodes_share_the_data_without_gaps():
    for k, name in enumerate(SUPERNODES):
        config = f"partition-id={k} num-partitions={len(SUPERNODES)}"
        assert option(SERVICES[name]["command"], "node-config") == config
    config = option(SERVICES["app"]["command"], "run-config")
    assert config.startswith(f"nodes={len(SUPERNODES)} ")
    declared = tomllib.loads((ROOT / "src/maxfl/flower/app_template/pyproject.toml").read_text())
    settings = declared["tool"]["flwr"]["app"]["config"]
    assert set(re.findall(r"(\w+)=", config)) <= set(settings)


def test_kubernetes_runs_the_same_commands():
    nodes = MANIFESTS["StatefulSet", "supernode"]["spec"]["replicas"]
    assert nodes == len(SUPERNODES)
    pairs = {
        "superlink": "superlink", "supernode": "supernode-0", "register-node-0": "register",
        "run-first": "app",
    }  # fmt: skip
    assert set(pairs) == set(PODS)
    for pod, service in pairs.items():
        command = [word.replace("$(NODE)", "0") for word in container(pod)["command"]]
        assert command == SERVICES[service]["command"]
        assert container(pod)["image"] == SERVICES[service]["image"]


def test_what_processes_write_is_not_in_the_image():
    """Flower writes to its home, and fails where it can't."""
    assert "FLWR_HOME=/flwr" in DOCKERFILES["Dockerfile"]
    for service in SERVICES.values():
        assert service["tmpfs"] == ["/tmp", "/flwr"]
    for pod in PODS:
        places = {mount["mountPath"]: mount for mount in container(pod)["volumeMounts"]}
        assert {"/tmp", "/flwr"} <= set(places)
        assert not any(places[place].get("readOnly") for place in ("/tmp", "/flwr"))


def test_kubernetes_objects_name_each_other():
    page = (DEPLOY / "README.md").read_text()
    for pod, spec in PODS.items():
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = container(pod)["volumeMounts"]
        assert {mount["name"] for mount in mounts} == set(volumes)
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert ("PersistentVolumeClaim", claim) in MANIFESTS
            elif "secret" in volume:
                assert f"create secret generic {volume['secret']['secretName']} " in page
            elif "configMap" in volume:
                assert f"create configmap {volume['configMap']['name']} " in page
    for (kind, name), document in MANIFESTS.items():
        if kind == "Service":
            labels = [other["spec"]["template"]["metadata"]["labels"]
                      for other in MANIFESTS.values() if "template" in other["spec"]]  # fmt: skip
            assert any(document["spec"]["selector"].items() <= found.items() for found in labels)
            assert name in {"superlink", "supernode"}
    (port,) = MANIFESTS["Service", "superlink"]["spec"]["ports"]
    (inside,) = container("superlink")["ports"]
    assert str(port["port"]) == str(inside["containerPort"])
    assert port["targetPort"] == inside["name"]
    assert str(port["port"]) == option(container("superlink")["command"], "port")


def test_what_serves_is_asked_whether_it_is_healthy():
    for name in ("superlink", *SUPERNODES):
        assert "/opt/maxfl/healthy.py" in SERVICES[name]["healthcheck"]["test"]
    assert "COPY deploy/healthy.py /opt/maxfl/healthy.py" in DOCKERFILES["Dockerfile"]
    for pod in ("superlink", "supernode"):
        assert {"startupProbe", "livenessProbe"} <= set(container(pod))
    port = option(SERVICES["supernode-0"]["command"], "port")
    url = f"http://127.0.0.1:{port}/health"
    assert url in SERVICES["supernode-0"]["healthcheck"]["test"]
    assert url in container("supernode")["livenessProbe"]["exec"]["command"]


def test_the_page_names_every_file():
    page = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.rglob("*"):
        hidden = path.name.startswith(".") or path.suffix == ".dockerignore"
        if path.is_file() and not hidden and "secrets" not in path.relative_to(DEPLOY).parts[:-1]:
            assert f"`{path.relative_to(DEPLOY)}`" in page or path.name == "README.md"


LINTERS = {
    "hadolint": ["Dockerfile", "app.Dockerfile"],
    "yamllint": ["--strict", "--config-file", ".yamllint.yaml", "compose.yaml", "kubernetes"],
    "kubernetes-validate": sorted(f"kubernetes/{path.name}" for path in DEPLOY.glob("*/*.yaml")),
    "check-jsonschema": ["--builtin-schema", "vendor.compose-spec", "compose.yaml"],
}


@pytest.mark.extras
@pytest.mark.parametrize("linter", LINTERS)
def test_linters_find_nothing(linter):
    beside = Path(sys.executable).with_name(linter)
    program = str(beside) if beside.exists() else shutil.which(linter)
    if program is None:
        pytest.skip(f"{linter} not installed")
    done = subprocess.run(
        [program, *LINTERS[linter]], cwd=DEPLOY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
