"""Choosing the rate-limiter component: a quota per author that holds under load and costs nothing when refused."""

PACKAGE = "@convex-dev/rate-limiter"
HOUR = 60 * 60 * 1000
POST, CAN_POST = "comments:post", "comments:canPost"
CONSUMING = {"limit"}
LOOKING = {"check", "getValue"}


def consumed(sources):
    return sources.calls(package=PACKAGE, export={"RateLimiter", "default"}, method=CONSUMING, reachable_from=POST)


def looked_at(sources):
    return sources.calls(package=PACKAGE, export={"RateLimiter", "default"}, method=LOOKING, returned_by=CAN_POST)


def component_of(call):
    """The component a limiter works on: `components.rateLimiter` is `rateLimiter`."""
    given = call.receiver and call.receiver.arg(0)
    return getattr(given, "member", None)


def quota_of(call):
    """The rule a call applies: given with the call, or by name when the limiter was made."""
    name = call.arg(1)
    named = call.receiver.arg(1, name) if isinstance(name, str) and call.receiver else None
    return call.arg(2, "config", default=named)


def is_twenty_an_hour(rule):
    if not isinstance(rule, dict) or rule.get("kind") not in ("token bucket", "fixed window"):
        return False
    return (rule.get("rate"), rule.get("period"), rule.get("capacity") or 20) == (20, HOUR, 20)


def test_the_functions_are_there(sources):
    kinds = {path: sources.functions[path].kind for path in (POST, CAN_POST)}
    assert kinds == {POST: "mutation", CAN_POST: "query"}
    assert {sources.functions[path].visibility for path in kinds} == {"public"}


def test_the_rate_limiter_component_is_installed(sources):
    assert sources.installed(PACKAGE)


def test_package_json_has_the_package(sources):
    assert PACKAGE in sources.dependencies


def test_posting_uses_up_the_allowance(sources):
    assert consumed(sources)


def test_the_allowance_is_twenty_an_hour(sources):
    rules = [quota_of(call) for call in consumed(sources)]
    assert rules, "no allowance is used up"
    assert all(is_twenty_an_hour(rule) for rule in rules), rules


def test_each_author_has_an_allowance_of_their_own(sources):
    calls = consumed(sources)
    assert calls
    assert all(sources.comes_from(call.arg(2, "key"), "args.author") for call in calls)


def test_a_refusal_stops_the_comment(sources):
    calls = consumed(sources)
    assert calls
    assert all(call.arg(2, "throws") is True or "condition" in call.flows for call in calls)


def test_a_refused_author_learns_when_to_come_back(sources):
    assert sources.calls(package=PACKAGE, method=CONSUMING | LOOKING, returned_by=POST)


def test_asking_looks_at_the_allowance_without_using_it(sources):
    assert looked_at(sources)
    assert not sources.calls(package=PACKAGE, method=CONSUMING, reachable_from=CAN_POST)


def test_asking_looks_at_the_allowance_that_posting_uses(sources):
    used = [call.arg(1) for call in consumed(sources)]
    asked = looked_at(sources)
    assert asked
    for call in asked:
        assert call.arg(1) in used
        assert is_twenty_an_hour(quota_of(call))
        assert sources.comes_from(call.arg(2, "key"), "args.author")


def test_the_limiter_works_on_an_installed_component(sources):
    installed = {one.name or "rateLimiter" for one in sources.installed(PACKAGE)}
    used = {component_of(call) for call in (*consumed(sources), *looked_at(sources))}
    assert used
    assert used <= installed
