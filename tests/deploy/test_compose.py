"""The composition of a gateway: by Docker Compose itself where it is there, and by what the project knows of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svir_proxy.settings import load_settings
from tests.deploy.processes import ROOT, image_environment
from tests.docs.pages import page

FILES: Final = ("docker-compose.yml", "deploy/compose.gateway.yml")
GATEWAY: Final = ROOT / "deploy/compose.gateway.yml"
COMPOSED: Final[dict[str, Any]] = yaml.safe_load(GATEWAY.read_text("utf-8"))
SERVICES: Final[dict[str, Any]] = COMPOSED["services"]
OF_OTHERS: Final = {"svir-proxy": False, "valkey": True, "prometheus": True, "grafana": True}
"""Whether an image is made elsewhere."""


def _compose() -> list[str]:
    """The command of Docker Compose, as a program of its own or as Docker's; it needs no daemon to read a file."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    asked = ["docker", "compose", "version"]
    if shutil.which("docker") and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    pytest.skip("there is no docker compose: apt-get install docker-compose, or docs.docker.com/compose/install")


@pytest.mark.parametrize("file", FILES)
def test_docker_compose_takes_it(file: str) -> None:
    command = [*_compose(), "-f", str(ROOT / file), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_docker_compose_reads_it_as_it_is_meant() -> None:
    command = [*_compose(), "-f", str(GATEWAY), "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unknown flag" in done.stderr or "Usage" in done.stderr:
        pytest.skip("this docker-compose writes no JSON; take version 2 or newer")
    read = json.loads(done.stdout)["services"]
    assert set(read) == set(SERVICES)
    published = {name: port for name, service in read.items() for port in service.get("ports", [])}
    assert {port["host_ip"] for port in published.values()} == {"127.0.0.1"}
    mounts = [m for service in read.values() for m in service.get("volumes", []) if m["type"] == "bind"]
    assert all(Path(mount["source"]).exists() for mount in mounts)


def test_each_service_is_locked_up() -> None:
    assert set(SERVICES) == set(OF_OTHERS)
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "mem_limit" in service, name
        assert service.get("read_only", name == "grafana") is True, "but Grafana writes plugins beside its data"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if OF_OTHERS[name]:
            assert re.fullmatch(r"[a-z/]+:v?\d[\d.]*", service["image"]), "a tag that says which"


def test_what_is_inside_stays_inside() -> None:
    assert COMPOSED["networks"]["inside"]["internal"] is True
    reached = {name for name, service in SERVICES.items() if "outside" in service["networks"]}
    assert reached == {name for name, service in SERVICES.items() if service.get("ports")}


def test_what_is_named_is_there() -> None:
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source, *_ = mount.split(":")
            assert (GATEWAY.parent / source).exists() if source.startswith(".") else source in COMPOSED["volumes"]
    used = {name for service in SERVICES.values() for name in service.get("secrets", [])}
    assert used == set(COMPOSED["secrets"])
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {Path(secret["file"]).parent.as_posix() for secret in COMPOSED["secrets"].values()} == {"secrets"}
    assert "deploy/secrets/" in ignored
    for text in (GATEWAY.read_text("utf-8"), page("docs/operations/monitoring.md").text):
        assert f"for name in {' '.join(COMPOSED['secrets'])}; do" in text


def test_the_configuration_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in image_environment().items():
        monkeypatch.setenv(name, value)
    text = (ROOT / "deploy/gateway.yaml").read_text("utf-8")
    proxy = SERVICES["svir-proxy"]
    assert set(re.findall(r"/run/secrets/([\w-]+)", text)) == set(proxy["secrets"])
    for name in proxy["secrets"]:
        (tmp_path / name).write_text("sk-one\n")
    config = tmp_path / "svir.yaml"
    config.write_text(text.replace("/run/secrets", str(tmp_path)))
    settings = load_settings(config)
    assert int(proxy["stop_grace_period"].removesuffix("s")) >= settings.server.drain_seconds + 8
    assert f"valkey://{next(name for name in SERVICES if 'valkey' in name)}:6379/0" in text
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    (scrape,) = prometheus["scrape_configs"]
    (found,) = scrape["dns_sd_configs"]
    assert found["names"] == ["svir-proxy"]
    assert found["port"] == settings.metrics.port


def test_the_store_is_started_as_on_kubernetes() -> None:
    documents = yaml.safe_load_all((ROOT / "deploy/kubernetes/gateway/valkey.yaml").read_text("utf-8"))
    (pod,) = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "StatefulSet"]
    assert pod["containers"][0]["args"] == SERVICES["valkey"]["command"]
    assert pod["containers"][0]["image"] == SERVICES["valkey"]["image"]


def test_grafana_finds_its_dashboard_and_prometheus() -> None:
    provisioning = ROOT / "deploy/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards/svir-proxy.yml").read_text("utf-8"))["providers"]
    mounts = dict(reversed(mount.split(":")[:2]) for mount in SERVICES["grafana"]["volumes"])
    assert mounts[provider["options"]["path"]] == "./grafana/dashboards"
