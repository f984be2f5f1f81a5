"""Units of systemd and objects of Kubernetes, read by their own tools where these are."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

PROGRAM = """
import riverrun as rr
app = rr.App("Shop_1")
app.stream("views", schema="page string").to("out")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    folder = tmp_path / "with 100% space"
    folder.mkdir()
    (folder / "app.py").write_text(PROGRAM)
    monkeypatch.setenv("RIVERRUN_HOME", str(folder / "home"))
    return folder / "app.py"


def test_a_unit_is_what_systemd_reads(program, riverrun, tmp_path):
    file = tmp_path / "riverrun-shop.service"
    told = riverrun("export", "systemd", str(program), "--user", "root", "--out", str(file))
    assert told.out == f"wrote {file}\n"
    unit = file.read_text()
    assert '100%% space/app.py" --restart' in unit
    assert "User=root\n" in unit
    assert "KillMode=mixed" in unit
    if shutil.which("systemd-analyze"):
        verify = ["systemd-analyze", "verify", str(file)]
        ended = subprocess.run(verify, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
    assert riverrun("export", "systemd", str(program), "--image", "x").code == 2


def test_objects_are_what_kubernetes_reads(program, riverrun, tmp_path, monkeypatch):
    asked = ("export", "kubernetes", str(program), "--image", "shop:1.2")
    assert "a pod needs the address of brokers" in riverrun(*asked).err
    monkeypatch.setenv("RIVERRUN_BROKERS", "kafka:9092")
    assert "a pod runs an image" in riverrun(*asked[:3]).err
    found = json.loads(riverrun(*asked).out)
    kinds = {each["kind"]: each for each in found["items"]}
    assert list(kinds) == ["ConfigMap", "PersistentVolumeClaim", "Deployment"]
    assert {each["metadata"]["name"] for each in found["items"]} == {"riverrun-shop-1"}
    assert kinds["ConfigMap"]["data"] == {"app.py": PROGRAM}
    spec = kinds["Deployment"]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    assert {"name": "RIVERRUN_BROKERS", "value": "kafka:9092"} in pod["containers"][0]["env"]
    mounts = {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounts == {each["name"] for each in pod["volumes"]}
    if shutil.which("kubectl"):
        folder = tmp_path / "kustomize"
        folder.mkdir()
        riverrun(*asked, "--out", str(folder / "shop.json"))
        (folder / "kustomization.yaml").write_text("resources: [shop.json]\n")
        built = subprocess.run(
            ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
        )
        assert built.returncode == 0, built.stderr
        assert built.stdout.count("kind: ") >= 3
    told = json.loads(riverrun(*asked, "--json").out)
    assert json.loads(told["text"]) == found


@pytest.mark.parametrize("user", ["", "x\nExecStart=evil", "-x", "a b", "%u", "a/b"])
def test_a_user_that_is_no_name_is_refused(user, program, riverrun):
    told = riverrun("export", "systemd", str(program), f"--user={user}")
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        f"error: that is no name of a user [RR103]\n  where: --user\n  got: {user!r}\n"
    )


def test_a_unit_has_no_line_of_a_folders_name(program, riverrun, monkeypatch):
    monkeypatch.setenv("RIVERRUN_HOME", "/tmp/x\nExecStart=evil")
    told = riverrun("export", "systemd", str(program))
    assert told.code == 2
    assert "takes no line breaks" in told.err


@pytest.mark.parametrize("image", ["", "a b", "a\nb"])
def test_an_image_that_is_no_name_is_refused(image, program, riverrun):
    told = riverrun("export", "kubernetes", str(program), "--image", image)
    assert told.code == 2
    assert "that is no name of an image" in told.err


def test_a_file_that_cannot_be_written_is_told(program, riverrun, tmp_path):
    file = tmp_path / "nowhere" / "x.service"
    told = riverrun("export", "systemd", str(program), "--out", str(file))
    assert told.code == 2
    assert told.err == (
        "error: the file cannot be written [RR103]\n"
        f"  where: {file}\n"
        "  got: No such file or directory\n"
    )
