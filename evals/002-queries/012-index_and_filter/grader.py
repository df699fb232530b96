"""Index and filter: the index range narrows, the filter decides, the limit comes last, and the read stays small."""

from zlib import crc32

EVERYTHING = {"from": 0, "until": 1_000_000, "minWeight": 0, "limit": 1000}


def store(app, depots, count, weight):
    """Parcels that arrived at 0, 1, 2 … in each depot, stored in another order; `weight` goes by the arrival."""
    parcels = [
        {"depot": depot, "arrivedAt": arrival, "weight": weight(arrival), "label": f"{depot} {arrival}"}
        for depot in depots
        for arrival in range(count)
    ]
    app.insert("parcels", sorted(parcels, key=lambda parcel: crc32(repr(parcel).encode())))


def labels(parcels):
    return [parcel["label"] for parcel in parcels]


def heavy(app, depot, **changes):
    return labels(app.query("parcels:heavy", {"depot": depot, **EVERYTHING, **changes}))


def next_heavy(app, depot, after, min_weight):
    return app.query("parcels:nextHeavy", {"depot": depot, "after": after, "minWeight": min_weight})


def test_heavy_takes_depot_time_and_weight_together(app):
    store(app, ("east", "north", "west"), 10, lambda arrival: 900 if arrival % 2 else 100)
    assert heavy(app, "north", **{"from": 3, "until": 9}, minWeight=500) == ["north 7", "north 5", "north 3"]
    assert heavy(app, "west", **{"from": 6, "until": 8}) == ["west 7", "west 6"]
    assert heavy(app, "east", minWeight=500, limit=2) == ["east 9", "east 7"]


def test_bounds_are_inclusive_where_the_task_says_so(app):
    store(app, ("north",), 10, lambda arrival: 100 * arrival)
    assert heavy(app, "north", **{"from": 4, "until": 7}) == ["north 6", "north 5", "north 4"]
    assert heavy(app, "north", minWeight=800) == ["north 9", "north 8"]
    assert heavy(app, "north", minWeight=801) == ["north 9"]


def test_light_parcels_do_not_use_up_the_limit(app):
    store(app, ("north",), 300, lambda arrival: 900 if arrival < 5 else 100)
    assert heavy(app, "north", minWeight=500, limit=3) == ["north 4", "north 3", "north 2"]
    assert heavy(app, "north", minWeight=500, limit=9) == ["north 4", "north 3", "north 2", "north 1", "north 0"]


def test_nothing_that_matches_gives_nothing(app):
    store(app, ("north",), 10, lambda _: 100)
    assert heavy(app, "north", limit=0) == []
    assert heavy(app, "north", minWeight=101) == []
    assert heavy(app, "nowhere") == []
    assert next_heavy(app, "north", 0, 101) is None
    assert next_heavy(app, "north", 9, 0) is None
    assert next_heavy(app, "nowhere", 0, 0) is None


def test_next_heavy_is_the_first_heavy_one_afterwards(app):
    store(app, ("north", "south"), 50, lambda arrival: 900 if arrival % 20 == 0 else 100)
    assert next_heavy(app, "south", 3, 500)["label"] == "south 20"
    assert next_heavy(app, "south", 20, 500)["label"] == "south 40"
    assert next_heavy(app, "south", 20, 100)["label"] == "south 21"
    assert next_heavy(app, "south", 39.5, 900)["label"] == "south 40"


def test_heavy_reads_the_time_and_the_depot_only(app):
    store(app, [f"depot {number}" for number in range(5)], 120, lambda arrival: 900 if arrival % 5 == 0 else 100)
    with app.measure() as cost:
        assert len(heavy(app, "depot 4", **{"from": 100, "until": 120}, minWeight=500)) == 4
    assert cost.documents_read <= 25


def test_heavy_stops_at_the_limit(app):
    store(app, ("north",), 400, lambda arrival: 900 if arrival % 2 else 100)
    with app.measure() as cost:
        assert heavy(app, "north", minWeight=500, limit=3) == ["north 399", "north 397", "north 395"]
    assert cost.documents_read <= 50


def test_next_heavy_stops_at_the_parcel(app):
    store(app, [f"depot {number}" for number in range(3)], 200, lambda arrival: 900 if arrival % 10 == 0 else 100)
    with app.measure() as cost:
        assert next_heavy(app, "depot 2", 50, 500)["label"] == "depot 2 60"
    assert cost.documents_read <= 50


def test_the_schema_is_unchanged(app, reference):
    assert app.schema() == reference.schema
