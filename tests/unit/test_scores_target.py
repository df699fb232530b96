"""Where results go, and who may write to production."""

from pathlib import Path

import pytest

from pytest_convex_evals.cli.deployments import deploy_target
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.scores.facts import ci_url, is_scored
from pytest_convex_evals.scores.target import Deployments, Target, address, ci_branch, find_target, guard_production

PROD, DEV = "https://a.convex.cloud", "https://b.convex.cloud"
BOTH = {"CONVEX_EVAL_URL": PROD, "CONVEX_AUTH_TOKEN": "t"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scores.toml").write_text(f'production = "{PROD}"\ndevelopment = "{DEV}/"\nbranch = "trunk"\n')
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("production", (PROD, "production")),
        ("development", (DEV, "development")),
        ("https://A.convex.cloud/", (PROD, "production")),
        ("https://a.convex.cloud:443", (PROD, "production")),
        ("https://a.convex.cloud.:443//", (PROD, "production")),
        ("https://a.convex.cloud:444", ("https://a.convex.cloud:444", "")),
        ("http://[::1]:3290", ("http://[::1]:3290", "")),
        ("https://c.convex.cloud", ("https://c.convex.cloud", "")),
        ("http://localhost:3290", ("http://localhost:3290", "")),
    ],
)
def test_a_deployment_is_meant_by_its_name_or_by_its_address(project, asked, found):
    assert Deployments.read(project).find(asked, "CONVEX_EVAL_URL") == found


@pytest.mark.parametrize(
    "text",
    [
        "http://a.convex.cloud",
        "a.convex.cloud",
        "ftp://x",
        "https://",
        "https://u:p@x",
        "https://x?y=1",
        "prod",
        "https://x:y",
        "https://x#y",
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(SettingsError, match="is not the address of a deployment"):
        address(text, "CONVEX_EVAL_URL")


@pytest.mark.parametrize(
    "text",
    ["production = ", "staging = 'https://x'", "production = 3", f"production = '{PROD}'\ndevelopment = '{PROD}/'"],
)
def test_a_wrong_file_is_a_wrong_setting(tmp_path, text):
    (tmp_path / "scores.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"scores\.toml"):
        Deployments.read(tmp_path)


def test_the_file_is_found_from_any_folder_of_the_project(project):
    below = project / "evals" / "000-m"
    below.mkdir(parents=True)
    assert find_target(BOTH, below)[0] == Target(PROD, "production", "t")
    with pytest.raises(SettingsError, match="only CI on the branch trunk"):
        guard_production("production", {}, below, forced=False, flag="")
    (below / "scores.toml").write_text(f'development = "{PROD}"\n')
    assert find_target(BOTH, below)[0] == Target(PROD, "development", "t")


@pytest.mark.parametrize(
    ("config", "asked", "variable", "found"),
    [
        (True, "", PROD, (DEV, "development")),
        (True, "production", DEV, (PROD, "production")),
        (True, "https://c.convex.cloud", DEV, ("https://c.convex.cloud", "")),
        (False, "", PROD, (PROD, "")),
    ],
)
def test_deploy_means_development_whatever_the_variable_says(project, monkeypatch, config, asked, variable, found):
    if not config:
        (project / "scores.toml").unlink()
    monkeypatch.chdir(project)
    assert deploy_target(asked, {"CONVEX_EVAL_URL": variable}) == found


def test_a_name_without_an_address_says_where_to_write_it(tmp_path):
    with pytest.raises(SettingsError, match=r"write production = .* into scores\.toml"):
        Deployments.read(tmp_path).find("production", "CONVEX_EVAL_URL")


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "CONVEX_EVAL_URL and CONVEX_AUTH_TOKEN are not set"),
        ({"CONVEX_EVAL_URL": PROD}, "CONVEX_AUTH_TOKEN is not set"),
        ({"CONVEX_AUTH_TOKEN": "t"}, "CONVEX_EVAL_URL is not set"),
    ],
)
def test_both_are_needed(tmp_path, environment, why):
    assert find_target(environment, tmp_path) == (None, why)


def test_a_target_does_not_show_its_token(project):
    target, _ = find_target({**BOTH, "CONVEX_AUTH_TOKEN": "very-secret"}, project)
    assert isinstance(target, Target)
    assert "very-secret" not in f"{target} {target!r} {target.shown}"


@pytest.mark.parametrize(
    ("environment", "branch"),
    [
        ({}, ""),
        ({"CI": "1", "GITHUB_REF": "refs/heads/trunk"}, ""),
        ({"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/heads/trunk"}, "trunk"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/pull/7/merge"}, "refs/pull/7/merge"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/tags/trunk"}, "refs/tags/trunk"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/heads/trunk", "GITHUB_EVENT_NAME": "schedule"}, "trunk"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/heads/trunk", "GITHUB_EVENT_NAME": "pull_request_target"}, ""),
        ({"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/heads/trunk", "GITHUB_EVENT_NAME": "pull_request"}, ""),
        ({"GITLAB_CI": "true", "CI_COMMIT_BRANCH": "trunk"}, "trunk"),
        ({"GITLAB_CI": "true", "CI_COMMIT_BRANCH": "trunk", "CI_PIPELINE_SOURCE": "merge_request_event"}, ""),
        ({"GITLAB_CI": "true"}, ""),
    ],
)
def test_only_ci_on_the_main_branch_writes_to_production(project, environment, branch):
    assert ci_branch(environment) == branch
    guard_production("development", environment, project, forced=False, flag="")
    guard_production("production", environment, project, forced=True, flag="")
    if branch == "trunk":
        guard_production("production", environment, project, forced=False, flag="")
    else:
        with pytest.raises(SettingsError, match="only CI on the branch trunk"):
            guard_production("production", environment, project, forced=False, flag="")


def test_the_page_of_the_job():
    github = {"GITHUB_SERVER_URL": "https://g", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"}
    assert ci_url(github) == "https://g/a/b/actions/runs/7"
    assert ci_url({"CI_JOB_URL": "https://l/1"}) == "https://l/1"
    assert ci_url({}) is None


@pytest.mark.parametrize("name", ["reference", "wrong:slug", "empty:no-files", "replay:abcd"])
def test_built_in_submitters_and_replays_are_not_scored(name):
    assert not is_scored(name)
    assert is_scored("gpt-5")
