import re


def imports(text):
    return re.findall(r'from "([^"]+)"', text)


def test_installs_the_component(files):
    assert "@convex-dev/rate-limiter/convex.config.js" in imports(files["convex/convex.config.ts"])


def test_uses_it(files):
    assert "convex/convex.config.ts" in files
    assert any(
        "@convex-dev/rate-limiter" in imports(text) for path, text in files.items() if path.startswith("convex/")
    )
