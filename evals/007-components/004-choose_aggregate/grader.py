"""Choosing the aggregate component: ranks and counts over millions of rows, exact, without reading them."""

PACKAGE = "@convex-dev/aggregate"
COUNTING = {"count", "countBatch", "indexOf", "indexOfDoc", "offsetOf", "offsetUntil"}
INSERTING = {
    "insert",
    "insertIfDoesNotExist",
    "replaceOrInsert",
    "_insert",
    "_insertIfDoesNotExist",
    "_replaceOrInsert",
}
DELETING = {"delete", "deleteIfExists", "_delete", "_deleteIfExists"}
REPLACING = {"replace", "replaceOrInsert", "_replace", "_replaceOrInsert"}
FOLLOWING = {"trigger", "idempotentTrigger"}
QUEUEING = {"enqueueBatch"}

FUNCTIONS = {
    "leaderboard:submitScore": "mutation",
    "leaderboard:removePlayer": "mutation",
    "leaderboard:rankOf": "query",
    "leaderboard:playerCount": "query",
}


def writes(sources, function, methods):
    """Calls that change the aggregate in one of these ways; a trigger does whatever the table does."""
    return sources.calls(package=PACKAGE, method=methods | FOLLOWING, reachable_from=function)


def reads(sources, function):
    return sources.calls(package=PACKAGE, method=COUNTING, returned_by=function)


def asks_for_delay(args):
    return any(isinstance(arg, dict) and (arg.get("async") is True or arg.get("stale") is True) for arg in args)


def component_of(call):
    """The installed component an aggregate works on: `components.aggregate` is `aggregate`."""
    given = call.receiver and call.receiver.arg(0)
    return getattr(given, "member", None)


def test_the_functions_are_there(sources):
    assert {path: sources.functions[path].kind for path in FUNCTIONS} == FUNCTIONS
    assert {sources.functions[path].visibility for path in FUNCTIONS} == {"public"}


def test_the_aggregate_component_is_installed(sources):
    assert sources.installed(PACKAGE)


def test_package_json_has_the_package(sources):
    assert PACKAGE in sources.dependencies


def test_the_rank_is_counted_by_the_aggregate(sources):
    assert reads(sources, "leaderboard:rankOf")


def test_the_number_of_players_is_counted_by_the_aggregate(sources):
    assert reads(sources, "leaderboard:playerCount")


def test_a_new_player_enters_the_aggregate(sources):
    assert writes(sources, "leaderboard:submitScore", INSERTING)


def test_a_changed_score_moves_in_the_aggregate(sources):
    moved = writes(sources, "leaderboard:submitScore", REPLACING)
    assert moved or writes(sources, "leaderboard:submitScore", DELETING)


def test_a_removed_player_leaves_the_aggregate(sources):
    assert writes(sources, "leaderboard:removePlayer", DELETING)


def test_the_numbers_are_exact_at_once(sources):
    reached = [call for path in FUNCTIONS for call in sources.calls(package=PACKAGE, reachable_from=path)]
    late = [call for call in reached if call.method in QUEUEING or asks_for_delay(call.args)]
    assert reached, "no function uses the aggregate"
    assert late == []


def test_what_is_read_is_what_is_written_and_installed(sources):
    installed = {one.name or "aggregate" for one in sources.installed(PACKAGE)}
    for query in ("leaderboard:rankOf", "leaderboard:playerCount"):
        read = {component_of(call) for call in reads(sources, query)}
        assert read, f"{query} reads no aggregate"
        assert read <= installed
        for mutation in ("leaderboard:submitScore", "leaderboard:removePlayer"):
            written = {component_of(call) for call in writes(sources, mutation, INSERTING | REPLACING | DELETING)}
            assert read <= written
