import json


def test_package_json_is_as_asked(files):
    name = json.loads(files["package.json"])["name"]
    assert name == name.lower()


def test_a_model_finds_the_text_long_enough(files):
    assert files["convex/main.ts"].count("\\n") + 1 == 4
