"""The TypeScript of the engine type-checks under strict rules."""

import json
import subprocess
from pathlib import Path

from pytest_convex_evals.engine.setup import ENGINE, ensure_toolchain

STRICT = (
    "strict",
    "noUncheckedIndexedAccess",
    "exactOptionalPropertyTypes",
    "noUnusedLocals",
    "noUnusedParameters",
    "noFallthroughCasesInSwitch",
    "noImplicitOverride",
)


def type_errors(folder: Path, sources: Path) -> str:
    toolchain = ensure_toolchain(lambda _: None)
    packages = toolchain.folder / "node_modules"
    options = {
        **dict.fromkeys(STRICT, True),
        "noEmit": True,
        "target": "ESNext",
        "module": "ESNext",
        "moduleResolution": "Bundler",
        "lib": ["ESNext", "DOM", "DOM.Iterable", "DOM.AsyncIterable"],
        "skipLibCheck": True,
        "types": ["node"],
        "typeRoots": [str(packages / "@types")],
        "jsx": "react-jsx",
        "paths": {"*": [str(packages / "*"), str(packages / "@types" / "*")]},
    }
    config = {"compilerOptions": options, "include": [str(sources)]}
    (folder / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    command = [str(toolchain.node), str(packages / "typescript" / "bin" / "tsc"), "-p", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_the_engine_has_no_type_errors(tmp_path):
    assert type_errors(tmp_path, ENGINE / "src") == ""


def test_a_type_error_is_noticed(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "wrong.ts").write_text("export const n: number = 'text';\n", encoding="utf-8")
    assert "TS2322" in type_errors(tmp_path, tmp_path / "src")
