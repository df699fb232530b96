"""Set-up of the Node toolchain: whole or absent, once, and with a message that helps."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_convex_evals.cli.main import main
from pytest_convex_evals.engine import setup
from pytest_convex_evals.engine.setup import ensure_toolchain, install_environment, node_executable
from pytest_convex_evals.errors import SetupError
from tests.support.tiny_engine import NAME, TinyRegistry, closed_port, write_engine


@pytest.fixture
def registry():
    server = TinyRegistry()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _npm(tmp_path, monkeypatch):
    """No network but loopback, no cache but an empty one, no waiting for a registry that is not there."""
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{closed_port()}/")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "no-npmrc"))


@pytest.fixture
def engine(tmp_path, monkeypatch):
    folder = tmp_path / "engine"
    write_engine(folder)
    monkeypatch.setattr(setup, "ENGINE", folder)
    return folder


def left_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name != "setup.lock")


def test_without_a_network_the_message_has_the_command_and_the_remedy_and_nothing_is_left(tmp_path):
    root, said = tmp_path / "root", []
    with pytest.raises(SetupError) as caught:
        ensure_toolchain(said.append, root=root)
    error = caught.value
    assert error.what == "the npm packages could not be installed"
    assert error.command == "node npm-cli.js ci --ignore-scripts --no-audit --no-fund --loglevel=error"
    assert error.remedy == "check the network and the proxy settings of npm, then run `convex-evals setup`"
    assert "ECONNREFUSED" in str(error)
    assert str(error).startswith(f"set-up failed: {error.what}\n  command:    {error.command}\n  | ")
    assert str(error).endswith(f"\n  what to do: {error.remedy}")
    assert left_in(root) == []
    assert len(said) == 1


def test_a_set_up_is_done_once_and_then_needs_no_network(tmp_path, engine, registry, monkeypatch):
    root, said = tmp_path / "root", []
    monkeypatch.setenv("npm_config_registry", registry.url)
    toolchain = ensure_toolchain(said.append, root=root)
    assert toolchain.script("toolchain").read_text() == "console.log(42)"
    assert [line.partition(" ")[0] for line in said] == ["installing", "bundling"]
    assert left_in(root) == [toolchain.folder.name]
    assert sorted(path.name for path in toolchain.folder.iterdir() if path.name.startswith((".p", "dist"))) == [
        toolchain.dist.name
    ]
    fetched = list(registry.fetched)
    registry.close()
    assert ensure_toolchain(said.append, root=root) == toolchain
    assert (registry.fetched, len(said)) == (fetched, 2)


def test_changed_sources_are_bundled_again_without_a_network(tmp_path, engine, registry, monkeypatch):
    root, said = tmp_path / "root", []
    monkeypatch.setenv("npm_config_registry", registry.url)
    first = ensure_toolchain(root=root)
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{closed_port()}/")
    (engine / "src/toolchain/main.ts").write_text("export const x = 1;\n", encoding="utf-8")
    second = ensure_toolchain(said.append, root=root)
    assert said == ["bundling the engine"]
    assert (second.folder, second.dist != first.dist) == (first.folder, True)


def test_a_bundle_that_fails_leaves_the_packages_and_no_bundle(tmp_path, engine, registry, monkeypatch):
    root = tmp_path / "root"
    monkeypatch.setenv("npm_config_registry", registry.url)
    good = (engine / "build.mjs").read_text()
    (engine / "build.mjs").write_text("throw new Error('no such entry point');\n", encoding="utf-8")
    with pytest.raises(SetupError) as caught:
        ensure_toolchain(root=root)
    assert caught.value.what == "the engine could not be bundled"
    assert caught.value.command.startswith("node build.mjs src ")
    assert "no such entry point" in str(caught.value)
    (folder,) = left_in(root)
    assert [path.name for path in (root / folder).iterdir() if path.name.startswith((".p", "dist"))] == []
    registry.close()
    (engine / "build.mjs").write_text(good, encoding="utf-8")
    assert ensure_toolchain(root=root).dist.is_dir()


def test_what_a_killed_set_up_left_behind_is_removed(tmp_path, engine, registry, monkeypatch):
    root = tmp_path / "root"
    (root / ".partial-toolchain-0-abc" / "node_modules").mkdir(parents=True)
    monkeypatch.setenv("npm_config_registry", registry.url)
    assert left_in(root) == [".partial-toolchain-0-abc"]
    toolchain = ensure_toolchain(root=root)
    assert left_in(root) == [toolchain.folder.name]


def test_force_repairs_a_damaged_toolchain(tmp_path, engine, registry, monkeypatch):
    root = tmp_path / "root"
    monkeypatch.setenv("npm_config_registry", registry.url)
    toolchain = ensure_toolchain(root=root)
    (toolchain.folder / "node_modules" / NAME / "index.js").unlink()
    toolchain.script("toolchain").unlink()
    repaired = ensure_toolchain(root=root, force=True)
    assert repaired == toolchain
    assert (toolchain.folder / "node_modules" / NAME / "index.js").is_file()
    assert toolchain.script("toolchain").is_file()


# Set-up of the engine in argv[1] below argv[2], one printed line per thing that takes time.
_PROGRAM = textwrap.dedent("""
    import sys
    from pathlib import Path
    from pytest_convex_evals.engine import setup
    setup.ENGINE = Path(sys.argv[1])
    print(setup.ensure_toolchain(print, root=Path(sys.argv[2])).dist)
""")


def test_of_concurrent_set_ups_one_installs_and_the_others_wait(tmp_path, engine, registry, monkeypatch):
    monkeypatch.setenv("npm_config_registry", registry.url)
    command = [sys.executable, "-c", _PROGRAM, str(engine), str(tmp_path / "root")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    said = [out.splitlines() for out, _ in outputs]
    assert sorted(len(lines) for lines in said) == [1, 1, 3]
    assert len({lines[-1] for lines in said}) == 1
    assert [path for path in registry.fetched if path.endswith(".tgz")] == [f"/{NAME}/-/{NAME}-1.0.0.tgz"]


def test_an_install_gets_proxies_and_npm_settings_and_no_key(monkeypatch):
    for name in ("OPENAI_API_KEY", "CONVEX_AUTH_TOKEN", "NODE_OPTIONS", "NODE_PATH", "MODELS"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/ca.pem")
    environment = install_environment(node_executable())
    assert "secret" not in environment.values()
    assert environment["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert environment["NODE_EXTRA_CA_CERTS"] == "/ca.pem"
    assert environment["npm_config_fetch_retries"] == "0"
    assert environment["PATH"].startswith(str(node_executable().parent))


def test_the_setup_command_says_each_thing_that_takes_time(tmp_path, engine, registry, monkeypatch, capsys):
    monkeypatch.setattr(setup, "toolchain_root", lambda: tmp_path / "root")
    monkeypatch.setenv("npm_config_registry", registry.url)
    assert main(["setup", "--quiet-when-ready"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["set-up"] * 3
    assert lines[-1].startswith(f"set-up: the toolchain is ready in {tmp_path}/root/toolchain-")
    assert main(["setup", "--quiet-when-ready"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["setup"]) == 0
    assert capsys.readouterr().out.startswith("the toolchain is ready: ")
    assert main(["setup", "--force"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_setup_command_fails_with_one_and_a_message(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(setup, "toolchain_root", lambda: tmp_path / "root")
    assert main(["setup"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(
        "set-up failed: the npm packages could not be installed\n  command:    node npm-cli.js ci"
    )
    assert "Traceback" not in captured.out + captured.err


def test_a_root_that_cannot_be_written_is_a_message(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(setup, "toolchain_root", lambda: tmp_path / "file" / "below")
    assert main(["setup"]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/file/below: Not a directory\n"


def test_the_lock_file_names_no_host():
    """Registries differ; versions and hashes do not."""
    text = (Path(setup.__file__).parent / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved": "http' not in text
    assert text.count('"integrity": "sha512-') > 50
