"""Choosing the workpool component: calls to a partner that are bounded in number, retried and off the request path."""

PACKAGE = "@convex-dev/workpool"
PLACE, TELL = "orders:place", "partner:tell"
PARTNER = "https://print.example.com/"
METHODS = {"enqueueAction", "enqueueActionBatch"}
FUNCTIONS = {"enqueue", "enqueueBatch"}


def jobs(sources):
    """Every place where `place` hands `tell` to a pool: the component, the pool's settings, those of the job."""
    by_pool = sources.calls(package=PACKAGE, export="Workpool", method=METHODS, reachable_from=PLACE)
    by_function = sources.calls(package=PACKAGE, export=FUNCTIONS, method="", reachable_from=PLACE)
    return [
        *((one.receiver.arg(0), one.receiver.arg(1), one.arg(3)) for one in by_pool if target(one.arg(1)) == TELL),
        *((one.arg(0), one.arg(5), one.arg(5)) for one in by_function if target(one.arg(3)) == TELL),
    ]


def target(value):
    return getattr(value, "path", None)


def get(options, key):
    return options.get(key) if isinstance(options, dict) else None


def retries_of(pool, job):
    """How a job is retried: its own setting, else that of its pool."""
    own = get(job, "retry")
    if isinstance(own, dict):
        return own
    if isinstance(get(job, "retryBehavior"), dict):
        return get(job, "retryBehavior")
    wanted = own if isinstance(own, bool) else get(pool, "retryActionsByDefault")
    return get(pool, "defaultRetryBehavior") if wanted is True else None


def leads_to_partner(call):
    return any(isinstance(arg, str) and arg.startswith(PARTNER) for arg in (*call.args, call.arg(0, "url")))


def test_the_functions_are_there(sources):
    place, tell = sources.functions[PLACE], sources.functions[TELL]
    assert (place.kind, place.visibility) == ("mutation", "public")
    assert (tell.kind, tell.visibility) == ("action", "internal")


def test_the_workpool_component_is_installed(sources):
    assert sources.installed(PACKAGE)


def test_package_json_has_the_package(sources):
    assert PACKAGE in sources.dependencies


def test_placing_an_order_queues_the_request(sources):
    assert jobs(sources), f"nothing that {PLACE} reaches hands {TELL} to a pool"


def test_at_most_four_requests_are_open(sources):
    limits = [get(pool, "maxParallelism") for _, pool, _ in jobs(sources)]
    assert limits, "no job is queued"
    assert all(limit == 4 for limit in limits), limits


def test_all_requests_share_one_installed_pool(sources):
    pools = {getattr(component, "member", None) for component, _, _ in jobs(sources)}
    assert len(pools) == 1, f"the pools that are used: {sorted(map(str, pools))}"
    assert pools <= {one.name or "workpool" for one in sources.installed(PACKAGE)}


def test_an_order_is_tried_five_times_with_growing_rests(sources):
    behaviours = [retries_of(pool, job) for _, pool, job in jobs(sources)]
    assert behaviours, "no job is queued"
    for behaviour in behaviours:
        assert isinstance(behaviour, dict), "a job is not retried, or not by rules that the code states"
        settings = {name: behaviour.get(name) for name in ("maxAttempts", "initialBackoffMs", "base")}
        assert settings == {"maxAttempts": 5, "initialBackoffMs": 500, "base": 2}


def test_the_request_is_made_by_the_action(sources):
    fetched = sources.calls(source="global", export="fetch", reachable_from=TELL)
    by_package = [call for call in sources.calls(source="package", reachable_from=TELL) if leads_to_partner(call)]
    assert [*fetched, *by_package]


def test_nothing_goes_around_the_pool(sources):
    around = sources.calls(
        source="ctx",
        method={"runAction", "scheduler.runAfter", "scheduler.runAt"},
        reachable_from=PLACE,
    )
    assert sources.functions[PLACE]
    assert [call for call in around if TELL in map(target, call.args)] == []
