"""The manifests: by Kubernetes' own schemas, as a whole, and their configurations and commands as processes."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import httpx
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions

from svir_proxy.conform.upstream import ScriptedUpstream, json_answer
from svir_proxy.settings import Settings, load_settings
from tests.deploy.processes import ROOT, container, free_port, image_environment, store
from tests.docs.pages import page
from tests.server.support import CHAT, COMPLETION
from tests.server.transport.raw_server import soon

KUBERNETES: Final = ROOT / "deploy/kubernetes"
VARIANTS: Final = ("gateway", "sidecar")
SINCE: Final = {"gateway": (1, 25), "sidecar": (1, 28)}
"""The first version that knows all of it. Native sidecars are switched on from 1.29 on."""
VERSIONS: Final = sorted({tuple(map(int, version.split(".")[:2])) for version in all_versions()})
PROGRAM: Final = "svir-proxy"


def _kustomization(variant: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((KUBERNETES / variant / "kustomization.yaml").read_text("utf-8"))
    return loaded


def _documents(variant: str) -> list[dict[str, Any]]:
    files = _kustomization(variant)["resources"]
    return [doc for name in files for doc in yaml.safe_load_all((KUBERNETES / variant / name).read_text("utf-8"))]


def _one(variant: str, kind: str, name: str | None = None) -> dict[str, Any]:
    (found,) = [d for d in _documents(variant) if d["kind"] == kind and name in (None, d["metadata"]["name"])]
    return found


def _pod(variant: str) -> dict[str, Any]:
    spec: dict[str, Any] = _one(variant, "Deployment")["spec"]["template"]["spec"]
    return spec


def _proxy(variant: str) -> dict[str, Any]:
    pod = _pod(variant)
    (found,) = [c for c in (*pod["containers"], *pod.get("initContainers", ())) if c["name"] == PROGRAM]
    return found  # type: ignore[no-any-return]


def _pods() -> list[tuple[str, dict[str, Any]]]:
    documents = [document for variant in VARIANTS for document in _documents(variant)]
    return [
        (document["metadata"]["name"], document["spec"]["template"]["spec"])
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet")
    ]


def _containers() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    return [
        (f"{name}.{container['name']}", pod, container)
        for name, pod in _pods()
        for container in (*pod["containers"], *pod.get("initContainers", ()))
    ]


# ----------------------------------------------------------------- by the schemas


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_version_of_kubernetes_knows_every_field(variant: str, version: tuple[int, int]) -> None:
    for document in _documents(variant):
        is_known = version >= SINCE[variant] or document["kind"] != "Deployment"
        with nullcontext() if is_known else pytest.raises(kubernetes_validate.ValidationError, match="restartPolicy"):
            kubernetes_validate.validate(document, ".".join(map(str, version)), strict=True)


def test_a_field_that_nobody_knows_would_be_found() -> None:
    document = _one("gateway", "Deployment")
    document["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(document, "1.33", strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_kustomize_makes_one_of_it(variant: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip(
            "there is no kubectl, whose kustomize puts the manifests together; see kubernetes.io/docs/tasks/tools"
        )
    done = subprocess.run(["kubectl", "kustomize", KUBERNETES / variant], capture_output=True, text=True, check=True)
    documents = list(yaml.safe_load_all(done.stdout))
    for document in documents:
        kubernetes_validate.validate(document, "1.33", strict=True)
    assert len(documents) == len(_documents(variant)) + 1
    (made,) = [document for document in documents if document["kind"] == "ConfigMap"]
    assert made["data"] == {"svir.yaml": (KUBERNETES / variant / "svir.yaml").read_text("utf-8")}
    images = {
        c["image"] for d in documents if d["kind"] == "Deployment" for c in d["spec"]["template"]["spec"]["containers"]
    }
    assert not {image for image in images if ":" not in image}, "an image without a tag is another one tomorrow"
    if variant == "gateway":
        assert {d["metadata"].get("namespace") for d in documents if d["kind"] != "Namespace"} == {"svir"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_files_are_used(variant: str) -> None:
    kustomization = _kustomization(variant)
    named = {*kustomization["resources"], *(f for made in kustomization["configMapGenerator"] for f in made["files"])}
    assert {path.name for path in (KUBERNETES / variant).iterdir()} == {*named, "kustomization.yaml"}


# ----------------------------------------------------------------- what hangs together


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_named_is_there(variant: str) -> None:
    pod, proxy = _pod(variant), _proxy(variant)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in proxy["volumeMounts"]} == set(volumes)
    assert all("subPath" not in mount for mount in proxy["volumeMounts"]), "a file that is mounted alone never changes"
    (generated,) = _kustomization(variant)["configMapGenerator"]
    assert generated["name"] in {v.get("configMap", {}).get("name") for v in volumes.values()}
    assert generated["options"]["disableNameSuffixHash"] is True
    (secret,) = [v["secret"]["secretName"] for v in volumes.values() if "secret" in v]
    commands = "\n".join(page("docs/operations/kubernetes.md").blocks("sh"))
    (made,) = re.findall(rf"create secret generic {secret}((?: \\\n|[^\n])*)", commands)
    assert set(re.findall(r"--from-(?:literal|file)=([\w-]+)=", made)) == _secret_files(variant)


def test_selectors_select() -> None:
    documents = _documents("gateway")
    labels = [
        (d["spec"]["template"]["metadata"]["labels"], d["spec"]["template"]["spec"])
        for d in documents
        if d["kind"] in ("Deployment", "StatefulSet")
    ]
    selectors = [
        *(("pods", d["spec"]["selector"].get("matchLabels", d["spec"]["selector"])) for d in documents if "selector" in d.get("spec", {})),
        *(("policy", d["spec"]["podSelector"]["matchLabels"]) for d in documents if d["kind"] == "NetworkPolicy"),
    ]  # fmt: skip
    for _, selector in selectors:
        assert [known for known, _ in labels if selector.items() <= known.items()], selector
    for document in documents:
        if document["kind"] == "Service":
            (pod,) = [spec for known, spec in labels if document["spec"]["selector"].items() <= known.items()]
            ports = {port["name"] for container in pod["containers"] for port in container["ports"]}
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= ports
    target = _one("gateway", "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target["name"] == _one("gateway", "Deployment")["metadata"]["name"]
    assert "replicas" not in _one("gateway", "Deployment")["spec"], "each apply would undo what the autoscaler did"


def test_the_budget_lets_a_node_be_emptied() -> None:
    least = _one("gateway", "HorizontalPodAutoscaler")["spec"]["minReplicas"]
    assert least > _one("gateway", "PodDisruptionBudget")["spec"]["maxUnavailable"]


@pytest.mark.parametrize(("name", "pod", "made"), _containers(), ids=[name for name, _, _ in _containers()])
def test_containers_are_locked_up(name: str, pod: dict[str, Any], made: dict[str, Any]) -> None:
    """As the pod security standard "restricted" wants it, and a file system that cannot be written."""
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    merged = {**pod.get("securityContext", {}), **made["securityContext"]}
    assert merged["runAsNonRoot"] is True
    assert merged["runAsUser"] > 0
    assert merged["seccompProfile"] == {"type": "RuntimeDefault"}
    assert merged["allowPrivilegeEscalation"] is False
    assert merged["readOnlyRootFilesystem"] is True
    assert merged["capabilities"] == {"drop": ["ALL"]}
    assert made["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert "memory" in made["resources"]["limits"]


# ----------------------------------------------------------------- its configuration


def _secret_files(variant: str) -> set[str]:
    return set(re.findall(r"/etc/svir/secrets/([\w-]+)", (KUBERNETES / variant / "svir.yaml").read_text("utf-8")))


def _mounted(variant: str, folder: Path, **replaced: str) -> Path:
    """The configuration with its secrets in *folder*, and with *replaced* patterns."""
    text = (KUBERNETES / variant / "svir.yaml").read_text("utf-8")
    for name in _secret_files(variant):
        (folder / name).write_text(f"sk-{name}\n")
    for pattern, value in {r"/etc/svir/secrets": str(folder), **replaced}.items():
        text, count = re.subn(pattern, value, text)
        assert count, pattern
    path = folder / "svir.yaml"
    path.write_text(text)
    return path


def _environment(variant: str) -> dict[str, str]:
    return {**image_environment(), **{entry["name"]: entry["value"] for entry in _proxy(variant)["env"]}}


def _settings(variant: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in _environment(variant).items():
        monkeypatch.setenv(name, value)
    return load_settings(_mounted(variant, folder))


@pytest.mark.parametrize("variant", VARIANTS)
def test_check_has_nothing_to_say(variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = _environment(variant)
    assert environment["SVIR_CONFIG"] == "/etc/svir/config/svir.yaml"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "svir_proxy", "check", "--config", str(_mounted(variant, tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: ")


def test_ports_and_times_fit_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, pod, proxy = _settings("gateway", tmp_path, monkeypatch), _pod("gateway"), _proxy("gateway")
    ports = {port["name"]: port["containerPort"] for port in proxy["ports"]}
    assert ports == {"http": settings.server.port, "metrics": settings.metrics.port}
    annotations = _one("gateway", "Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(settings.metrics.port)
    program, seconds = proxy["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    assert pod["terminationGracePeriodSeconds"] >= int(seconds) + settings.server.drain_seconds + 10
    (store_service,) = [
        d for d in _documents("gateway") if d["kind"] == "Service" and "valkey" in d["metadata"]["name"]
    ]
    (port,) = store_service["spec"]["ports"]
    assert (
        f"valkey://{store_service['metadata']['name']}:{port['port']}/0"
        in Path(KUBERNETES / "gateway/svir.yaml").read_text()
    )
    memory = {"Mi": 2**20, "Gi": 2**30}
    limit = proxy["resources"]["limits"]["memory"]
    assert settings.server.max_request_bytes * 8 <= int(limit[:-2]) * memory[limit[-2:]]


def test_the_sidecar_is_reached_by_its_own_pod_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _settings("sidecar", tmp_path, monkeypatch)
    assert settings.server.is_loopback
    assert not settings.auth.hashed()
    assert not [document for document in _documents("sidecar") if document["kind"] == "Service"]
    assert _proxy("sidecar")["restartPolicy"] == "Always"
    (app,) = _pod("sidecar")["containers"]
    asked = {entry["name"]: entry["value"] for entry in app["env"]}["OPENAI_BASE_URL"]
    assert asked == f"http://{settings.server.host}:{settings.server.port}/v1"
    assert _pod("sidecar")["terminationGracePeriodSeconds"] > settings.server.drain_seconds + 10


# ----------------------------------------------------------------- its commands


def _ask(base_url: str, key: str, model: str) -> int:
    body = {**CHAT, "model": model}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(
        f"{base_url}/v1/chat/completions", json=body, headers=headers, trust_env=False, timeout=20
    ).status_code


async def test_the_gateway_runs_as_its_pod_says(tmp_path: Path) -> None:
    """Its store, its probes, its keys, and its end; on loopback, and with a server of the test behind it."""
    (valkey,) = _one("gateway", "StatefulSet")["spec"]["template"]["spec"]["containers"]
    proxy, port = _proxy("gateway"), free_port()
    answer = json_answer(COMPLETION)
    async with (
        store(valkey["args"], tmp_path, port),
        ScriptedUpstream({"Qwen/Qwen3-32B": answer, "qwen3-4b": answer, "qwen/qwen3-32b": answer}) as upstream,
    ):
        replaced = {
            r"base_url: \S+": f"base_url: {upstream.base_url}",
            r"valkey://svir-valkey:6379": f"valkey://127.0.0.1:{port}",
        }
        environment = _environment("gateway") | {
            "SVIR_CONFIG": str(_mounted("gateway", tmp_path, **replaced)),
            "SVIR_SERVER__HOST": "127.0.0.1",
            "SVIR_SERVER__PORT": "0",
            "SVIR_METRICS__HOST": "127.0.0.1",
            "SVIR_METRICS__PORT": "0",
        }
        async with container(proxy["args"], environment) as serving:
            await serving.start(1)
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                url = f"{serving.base_url}{proxy[probe]['httpGet']['path']}"
                assert (await asyncio.to_thread(httpx.get, url, trust_env=False)).status_code == 200
            asked = [
                ("sk-team-a", "smart"),
                ("sk-team-a", "fast"),
                ("sk-team-b", "fast"),
                ("sk-team-b", "smart"),
                ("sk-no", "fast"),
            ]
            statuses = [await asyncio.to_thread(_ask, serving.base_url, key, model) for key, model in asked]
            assert statuses == [200, 200, 200, 403, 401]
            assert "limits=unchecked" not in "".join(serving.lines)
            serving.signal(signal.SIGTERM)
            assert (await serving.ended())[0] == 0


async def test_the_sidecar_runs_as_its_pod_says(tmp_path: Path) -> None:
    proxy = _proxy("sidecar")
    program, *arguments = proxy["startupProbe"]["exec"]["command"]
    assert program == "python"

    async def healthy(port: int) -> int:
        given = [argument.replace("8484", str(port)) for argument in arguments]
        assert given != arguments
        probe = await asyncio.create_subprocess_exec(sys.executable, *given, stderr=asyncio.subprocess.DEVNULL)
        return await soon(probe.wait())

    async with ScriptedUpstream({"Qwen/Qwen3-32B": json_answer(COMPLETION)}) as upstream:
        config = _mounted("sidecar", tmp_path, **{r"base_url: \S+": f"base_url: {upstream.base_url}"})
        environment = _environment("sidecar") | {"SVIR_CONFIG": str(config), "SVIR_SERVER__PORT": "0"}
        async with container(proxy["args"], environment) as serving:
            await serving.start(1)
            port = httpx.URL(serving.base_url).port
            assert port
            assert await healthy(port) == 0
            assert await asyncio.to_thread(_ask, serving.base_url, "unused", "smart") == 200
            (asked,) = upstream.script["Qwen/Qwen3-32B"].received
            assert asked.headers["authorization"] == "Bearer sk-vllm"
            serving.signal(signal.SIGTERM)
            assert (await serving.ended())[0] == 0
            assert await healthy(port) != 0


class _Volume:
    """A ConfigMap or a Secret as the kubelet mounts it: files are links into a folder that is changed in one step."""

    def __init__(self, folder: Path, **files: str) -> None:
        self.folder = folder
        folder.mkdir()
        self._writes = 0
        self.write(**files)
        for name in files:
            (folder / name).symlink_to(f"..data/{name}")

    def write(self, **files: str) -> None:
        """Give it these contents."""
        self._writes += 1
        made = self.folder / f"..{self._writes}"
        made.mkdir()
        for name, text in files.items():
            (made / name).write_text(text)
        (self.folder / "..data_tmp").symlink_to(made.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")


async def test_pods_that_run_see_a_config_map_and_a_secret_change(tmp_path: Path) -> None:
    """Nobody sends a signal, and no pod is replaced."""
    async with ScriptedUpstream({"m": json_answer(COMPLETION)}) as upstream:
        backend = {"name": "b", "base_url": upstream.base_url, "models": {"before": "m"}}
        document: dict[str, Any] = {
            "auth": {"keys": [{"key_file": str(tmp_path / "secrets/app")}]},
            "backends": [backend],
        }
        secrets = _Volume(tmp_path / "secrets", app="sk-before")
        config = _Volume(tmp_path / "config", **{"svir.yaml": yaml.safe_dump(document)})
        environment = _environment("gateway") | {
            "SVIR_CONFIG": str(tmp_path / "config/svir.yaml"),
            "SVIR_SERVER__HOST": "127.0.0.1",
            "SVIR_SERVER__PORT": "0",
        }
        async with container(["serve"], environment) as serving:
            await serving.start(1)
            assert await asyncio.to_thread(_ask, serving.base_url, "sk-before", "before") == 200
            backend["models"] = {"after": "m"}
            config.write(**{"svir.yaml": yaml.safe_dump(document)})
            await serving.said("was reloaded")
            assert await asyncio.to_thread(_ask, serving.base_url, "sk-before", "after") == 200
            secrets.write(app="sk-after")
            await serving.said("was reloaded")
            statuses = [
                await asyncio.to_thread(_ask, serving.base_url, key, "after") for key in ("sk-before", "sk-after")
            ]
            assert statuses == [401, 200]
