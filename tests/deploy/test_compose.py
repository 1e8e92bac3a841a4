"""The composition of a gateway: by Docker Compose itself where it is there, and by what the project knows of it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from svir_proxy.conform.upstream import ScriptedUpstream, json_answer
from svir_proxy.settings import load_settings
from tests.cli.test_prometheus import prometheus
from tests.deploy.processes import ROOT, container, free_port, image_environment, store
from tests.docs.pages import page
from tests.server.support import CHAT, COMPLETION

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


def _mounted(folder: Path) -> Path:
    """The gateway's configuration with its secrets in *folder*."""
    text = (ROOT / "deploy/gateway.yaml").read_text("utf-8")
    secrets = SERVICES["svir-proxy"]["secrets"]
    assert set(re.findall(r"/run/secrets/([\w-]+)", text)) == set(secrets)
    for name in secrets:
        (folder / name).write_text(f"sk-{name}\n")
    path = folder / "svir.yaml"
    path.write_text(text.replace("/run/secrets", str(folder)))
    return path


def test_the_configuration_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in image_environment().items():
        monkeypatch.setenv(name, value)
    config, proxy = _mounted(tmp_path), SERVICES["svir-proxy"]
    text = config.read_text()
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


async def test_it_runs_as_the_composition_says(tmp_path: Path) -> None:
    """Store, proxy with two workers, and Prometheus with its alerts; on loopback, with a server of the test behind it."""
    port, metrics = free_port(), free_port()
    async with (
        store(SERVICES["valkey"]["command"], tmp_path, port),
        ScriptedUpstream({"m": json_answer(COMPLETION)}) as upstream,
    ):
        config = _mounted(tmp_path)
        text = config.read_text()
        for pattern, value in {
            r"base_url: \S+": f"base_url: {upstream.base_url}",
            r"valkey://valkey:6379": f"valkey://127.0.0.1:{port}",
            r"tokens_per_day": "requests_per_day",
            r"requests_per_minute: 60": "requests_per_minute: 3",
        }.items():
            text, count = re.subn(pattern, value, text)
            assert count == 1, pattern
        config.write_text(text)
        environment = image_environment() | {
            "SVIR_CONFIG": str(config),
            "SVIR_SERVER__HOST": "127.0.0.1",
            "SVIR_SERVER__PORT": "0",
            "SVIR_METRICS__HOST": "127.0.0.1",
            "SVIR_METRICS__PORT": str(metrics),
        }
        async with container(["serve"], environment) as serving:
            await serving.start(2)
            async with httpx.AsyncClient(base_url=serving.base_url, trust_env=False, timeout=20) as client:
                for key, statuses in {"a": [200] * 5, "b": [200, 200, 200, 429, 429]}.items():
                    headers = {"authorization": f"Bearer sk-team-{key}", "connection": "close"}
                    asked = [
                        await client.post("/v1/chat/completions", json={**CHAT, "model": "m"}, headers=headers)
                        for _ in statuses
                    ]
                    assert [answer.status_code for answer in asked] == statuses, "both workers count together"
            async with prometheus(
                tmp_path, {"svir-proxy": (f"127.0.0.1:{metrics}", {})}, [ROOT / "deploy/prometheus/alerts.yml"]
            ) as server:
                await server.until("sum by (job) (svir_workers)", {"svir-proxy": 2})
                await server.until('sum by (job) (svir_requests_total{status="429"})', {"svir-proxy": 2})
                await server.until("svir_limit_store_up", {"svir-proxy": 1})
            serving.signal(signal.SIGTERM)
            assert (await serving.ended())[0] == 0


def test_prometheus_takes_its_options(tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus: apt-get install prometheus")
    # What it says of an option that it does not know comes before anything else, and so does what it says of --help.
    given = [re.sub(r"=/\S+", f"={tmp_path}", option) for option in SERVICES["prometheus"]["command"]]
    done = subprocess.run([program, *given, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
