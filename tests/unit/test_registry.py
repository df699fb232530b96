"""The registry of models and the way from a name to a model."""

import pytest

from pytest_convex_evals.cells import BUILT_IN
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.models.prices import Price
from pytest_convex_evals.models.registry import (
    Model,
    key_variables,
    litellm_price_map,
    load_registry,
    nearest,
    registry,
    resolve,
)
from pytest_convex_evals.models.resolution import refuse_unknown_prices, resolve_models


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return registry(tmp_path_factory.mktemp("empty"))


@pytest.fixture(scope="module")
def prices():
    return litellm_price_map()


def test_the_models_of_the_documentation_are_there(known):
    assert {"gpt-5", "gpt-5.2-codex", "claude-opus-4-6"} <= set(known)
    direct = {"OpenAI", "Anthropic", "Google", "xAI", "DeepSeek", "Moonshot", "Qwen", "Z.ai", "MiniMax", "Mistral"}
    assert {model.provider for model in known.values()} == direct | {"OpenRouter"}


def test_every_direct_model_is_a_text_model_of_litellms_map(known, prices):
    unknown = []
    for model in known.values():
        if model.provider == "OpenRouter":
            continue
        entry = prices.get(model.litellm) or prices.get(model.litellm.partition("/")[2]) or {}
        if entry.get("mode") not in {"chat", "responses"}:
            unknown.append(model.litellm)
    assert unknown == []


def test_limits_are_those_of_litellms_map(known, prices):
    different = {}
    for model in known.values():
        entry = prices.get(model.litellm) or prices.get(model.litellm.partition("/")[2])
        if entry and model.max_output_tokens != entry.get("max_output_tokens"):
            different[model.name] = (model.max_output_tokens, entry.get("max_output_tokens"))
    assert different == {}


KEYS = {
    "OpenAI": ("openai/", "OPENAI_API_KEY"),
    "Anthropic": ("anthropic/", "ANTHROPIC_API_KEY"),
    "Google": ("gemini/", "GEMINI_API_KEY"),
    "xAI": ("xai/", "XAI_API_KEY"),
    "DeepSeek": ("deepseek/", "DEEPSEEK_API_KEY"),
    "Moonshot": ("moonshot/", "MOONSHOT_API_KEY"),
    "Qwen": ("dashscope/", "DASHSCOPE_API_KEY"),
    "Z.ai": ("zai/", "ZAI_API_KEY"),
    "MiniMax": ("minimax/", "MINIMAX_API_KEY"),
    "Mistral": ("mistral/", "MISTRAL_API_KEY"),
    "OpenRouter": ("openrouter/", "OPENROUTER_API_KEY"),
}


def test_every_model_has_the_prefix_and_the_key_of_its_provider(known):
    for model in known.values():
        prefix, key = KEYS[model.provider]
        assert model.litellm.startswith(prefix), model.name
        assert model.key == key, model.name
        assert model.reasoning in {"", "medium"}, model.name
        assert model.display != model.name, model.name
        assert model.name == model.name.lower(), model.name


def test_no_two_models_share_an_id(known):
    ids = [model.litellm for model in known.values()]
    assert sorted(set(ids)) == sorted(ids)


def test_every_variable_that_may_hold_a_key_is_known(known):
    variables = key_variables(known)
    assert {key for _, key in KEYS.values()} <= variables
    assert {"GROQ_API_KEY", "TOGETHERAI_API_KEY"} <= variables
    assert "" not in variables


def test_a_name_of_the_registry_and_its_litellm_id_are_the_same_model(known):
    assert resolve("gpt-5", known) is known["gpt-5"]
    assert resolve("openai/gpt-5", known) is known["gpt-5"]


ROUTED = {
    "gpt-4o": Model("gpt-4o", "gpt-4o", "openai", "gpt-4o", "OPENAI_API_KEY"),
    "groq/some-new-model": Model(
        "groq/some-new-model", "groq/some-new-model", "groq", "groq/some-new-model", "GROQ_API_KEY"
    ),
    "ollama/llama3": Model("ollama/llama3", "ollama/llama3", "ollama", "ollama/llama3", ""),
    "openrouter/a/b:free": Model(
        "openrouter/a/b:free", "openrouter/a/b:free", "openrouter", "openrouter/a/b:free", "OPENROUTER_API_KEY"
    ),
}


@pytest.mark.parametrize(("name", "model"), ROUTED.items(), ids=ROUTED.keys())
def test_ids_that_litellm_can_route_work_without_an_entry(name, model, known):
    assert resolve(name, known) == model


def test_an_unknown_name_gets_the_three_nearest(known):
    with pytest.raises(SettingsError) as caught:
        resolve("gpt5", known)
    assert str(caught.value) == (
        "unknown model 'gpt5'.\n"
        "  nearest:    gpt-5, gpt-5.5, gpt-5.2\n"
        "  what to do: `convex-evals models` lists the registry; ids that litellm can route work too (provider/model)"
    )


@pytest.mark.parametrize(
    "name", ["dall-e", "voyage-code", "text-embedding", "xyzzy", "whisper", "gemini-pro-image", "openai/"]
)
def test_the_nearest_names_can_all_be_used(name, known):
    with pytest.raises(SettingsError) as caught:
        resolve(name, known)
    names = str(caught.value).splitlines()[1].partition("nearest:")[2].strip().split(", ")
    assert len(names) == 3
    for near in names:
        assert resolve(near, known).litellm


def test_models_that_do_not_write_text_are_unknown(known, prices):
    embedding = next(name for name, entry in prices.items() if entry.get("mode") == "embedding" and "/" not in name)
    with pytest.raises(SettingsError, match="unknown model"):
        resolve(embedding, known)


@pytest.mark.parametrize("name", ["a b", "a@b", "a+2", "a[b]", "openai/a::b", "groq/a\tb"])
def test_names_that_would_break_ids_are_refused(name, known):
    with pytest.raises(SettingsError) as caught:
        resolve(name, known)
    assert str(caught.value) == f"a model name may not hold spaces, @, +, brackets or ::, as {name!r} does"


def test_ties_go_to_the_first():
    assert nearest("gpt-5", ["gpt-6", "gpt-7", "gpt-5", "gpt-8", "gpt-5"]) == ["gpt-5", "gpt-6", "gpt-7"]


def test_a_project_adds_and_replaces_models(tmp_path, known):
    text = '[models.mine]\nprovider = "Me"\nlitellm = "openai/mine"\napi_base = "http://127.0.0.1:1/v1"\n'
    text += '[models.gpt-5]\nprovider = "Proxy"\nlitellm = "openai/gpt-5"\nkey = "PROXY_KEY"\n'
    (tmp_path / "models.toml").write_text(text, encoding="utf-8")
    own = registry(tmp_path)
    assert own["mine"] == Model("mine", "mine", "Me", "openai/mine", "", api_base="http://127.0.0.1:1/v1")
    assert own["gpt-5"].provider == "Proxy"
    assert set(own) == set(known) | {"mine"}
    assert "PROXY_KEY" in key_variables(own)


ENTRY = 'provider = "P"\nlitellm = "openai/x"\n'
MISTAKES = {
    "no TOML": (
        "[models",
        "the model registry {path} cannot be read: Expected ']' at the end of a table declaration (at end of document)",
    ),
    "another table": (
        "[model.x]\n" + ENTRY,
        'the model registry {path} must hold tables [models."name"] and [providers."name"] and nothing else',
    ),
    "no tables": (
        "models = 3\n",
        'the model registry {path} must hold tables [models."name"] and [providers."name"] and nothing else',
    ),
    "half a price": (
        "[models.x]\ninput_usd_per_million = 1\n" + ENTRY,
        '{path}: [models."x"] input_usd_per_million and output_usd_per_million must be two numbers, in USD',
    ),
    "a price in words": (
        '[models.x]\ninput_usd_per_million = 1\noutput_usd_per_million = "much"\n' + ENTRY,
        '{path}: [models."x"] input_usd_per_million and output_usd_per_million must be two numbers, in USD',
    ),
    "no table": ("[models]\nx = 3\n", '{path}: [models."x"] must be a table'),
    "an unknown key": (
        "[models.x]\nmax_tokens = 3\n" + ENTRY,
        "{path}: [models.\"x\"] unknown key 'max_tokens'; "
        "use api_base, display, formerly, input_usd_per_million, key, litellm, max_output_tokens, "
        "output_usd_per_million, provider, reasoning",
    ),
    "no provider": ('[models.x]\nlitellm = "openai/x"\n', '{path}: [models."x"] provider is missing'),
    "no id": ('[models.x]\nprovider = "P"\nlitellm = ""\n', '{path}: [models."x"] litellm is missing'),
    "a limit of zero": (
        "[models.x]\nmax_output_tokens = 0\n" + ENTRY,
        '{path}: [models."x"] max_output_tokens must be a whole number',
    ),
    "a limit in words": (
        '[models.x]\nmax_output_tokens = "8k"\n' + ENTRY,
        '{path}: [models."x"] max_output_tokens must be a whole number',
    ),
    "a limit of truth": (
        "[models.x]\nmax_output_tokens = true\n" + ENTRY,
        '{path}: [models."x"] max_output_tokens must be a whole number',
    ),
    "a number as key": (
        "[models.x]\nkey = 3\n" + ENTRY,
        '{path}: [models."x"] key, reasoning, api_base, display must be strings',
    ),
    "a name with a plus": (
        '[models."a+2"]\n' + ENTRY,
        '{path}: [models."a+2"] the name may not hold spaces, commas, @, +, brackets or ::',
    ),
    "a name with a space": (
        '[models."a b"]\n' + ENTRY,
        '{path}: [models."a b"] the name may not hold spaces, commas, @, +, brackets or ::',
    ),
    "an empty name": (
        '[models.""]\n' + ENTRY,
        '{path}: [models.""] the name may not hold spaces, commas, @, +, brackets or ::',
    ),
} | {
    f"the name {name}": (
        f'[models."{name}"]\n{ENTRY}',
        f'{{path}}: [models."{name}"] the name belongs to a built-in submitter',
    )
    for name in (*BUILT_IN, "wrong:x")
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_in_a_registry_is_named(text, message, tmp_path):
    path = tmp_path / "models.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_registry(path)
    assert str(caught.value) == message.format(path=path)


def test_a_registry_that_is_not_text_is_named(tmp_path):
    path = tmp_path / "models.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read: 'utf-8' codec can't decode"):
        load_registry(path)


LIMITED = "[models.x]\ninput_usd_per_million = 2\noutput_usd_per_million = 8.5\n" + ENTRY


def test_prices_and_limits_come_from_the_registry_then_from_the_map(tmp_path):
    limits = '[providers."OPENAI"]\nrequests_per_minute = 3\ntokens_per_minute = 9000\n'
    (tmp_path / "models.toml").write_text(LIMITED + limits, encoding="utf-8")
    found = resolve_models(["x", "gpt-5", "openai/gpt-4.1", "openai/nobody-knows"], tmp_path)
    assert found["x"].price == Price(2e-6, 8.5e-6, "registry")
    assert found["gpt-5"].price == Price(1.25e-6, 1e-5, "litellm")
    assert found["openai/nobody-knows"].price is None
    assert [(model.requests_per_minute, model.tokens_per_minute) for model in found.values()] == [
        (None, None),
        (3, 9000),
        (3, 9000),
        (3, 9000),
    ]
    with pytest.raises(SettingsError, match=r"the price of openai/nobody-knows is not known.\n  what to do: set input"):
        refuse_unknown_prices(found)


@pytest.mark.parametrize("text", ["requests_per_hour = 3", "requests_per_minute = 0", 'tokens_per_minute = "many"'])
def test_a_mistake_in_limits_is_named(text, tmp_path):
    (tmp_path / "models.toml").write_text(f"[providers.P]\n{text}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r'models.toml: \[providers."P"\] '):
        resolve_models(["gpt-5"], tmp_path)


def test_a_price_of_another_provider_is_not_taken(tmp_path):
    (tmp_path / "models.toml").write_text('[models.x]\nprovider = "P"\nlitellm = "groq/gpt-5"\n', encoding="utf-8")
    assert resolve_models(["x"], tmp_path)["x"].price is None


def test_web_search_is_what_the_map_says(tmp_path):
    names = ["gpt-5", "openai/gpt-4o-search-preview", "anthropic/claude-opus-4-6"]
    found = resolve_models(names, tmp_path, web_search=True)
    assert [(model.litellm, model.web_search) for model in found.values()] == [
        ("openai/responses/gpt-5", True),
        ("openai/gpt-4o-search-preview", True),
        ("anthropic/claude-opus-4-6", True),
    ]
    with pytest.raises(SettingsError) as caught:
        resolve_models(["gpt-5", "deepseek/deepseek-chat"], tmp_path, web_search=True)
    assert str(caught.value) == (
        "litellm offers no web search of the provider for deepseek/deepseek-chat.\n"
        "  what to do: choose models that can search, or another --evals-experiment"
    )
