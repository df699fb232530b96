"""Compound index: the equality field first, the range field second, and one index serves every query."""

from zlib import crc32

HOUR = 3_600_000
STOPS = ("Harbour", "Mill Lane", "Old Town", "Zoo")


def passage(stop, passed_at):
    return {"stop": stop, "line": f"L{passed_at % 7}", "passedAt": passed_at}


def report(app, stops=STOPS, hours=range(1, 9)):
    """A passage per stop and hour, stored in an order that has nothing to do with either."""
    passages = [passage(stop, hour * HOUR) for stop in stops for hour in hours]
    app.insert("passages", sorted(passages, key=lambda one: crc32(repr(one).encode())))


def report_many(app):
    """Many hours at each of many stops: what lies outside the range and what lies at other stops is both plenty."""
    report(app, [f"stop {number}" for number in range(10)], range(60))


def seen(documents):
    return [(document["stop"], document["passedAt"] / HOUR) for document in documents]


def test_between_gives_the_range_of_one_stop_in_order(app):
    report(app)
    found = app.query("passages:between", {"stop": "Mill Lane", "from": 3 * HOUR, "until": 6 * HOUR})
    assert seen(found) == [("Mill Lane", 3), ("Mill Lane", 4), ("Mill Lane", 5)]
    found = app.query("passages:between", {"stop": "Zoo", "from": 6 * HOUR + 1, "until": 8 * HOUR + 1})
    assert seen(found) == [("Zoo", 7), ("Zoo", 8)]


def test_latest_goes_by_the_time_of_passing(app):
    report(app)
    assert seen(app.query("passages:latest", {"stop": "Harbour", "count": 3})) == [
        ("Harbour", 8),
        ("Harbour", 7),
        ("Harbour", 6),
    ]
    assert len(app.query("passages:latest", {"stop": "Harbour", "count": 50})) == 8
    assert app.query("passages:latest", {"stop": "Harbour", "count": 0}) == []


def test_last_before_is_strictly_before(app):
    report(app)
    for time, hour in ((5 * HOUR, 4), (5 * HOUR + 1, 5), (99 * HOUR, 8)):
        found = app.query("passages:lastBefore", {"stop": "Old Town", "time": time})
        assert seen([found]) == [("Old Town", hour)]
    assert app.query("passages:lastBefore", {"stop": "Old Town", "time": HOUR}) is None


def test_an_unknown_stop_gives_nothing(app):
    report(app)
    assert app.query("passages:between", {"stop": "Nowhere", "from": 0, "until": 99 * HOUR}) == []
    assert app.query("passages:latest", {"stop": "Nowhere", "count": 5}) == []
    assert app.query("passages:lastBefore", {"stop": "Nowhere", "time": 99 * HOUR}) is None


def test_whole_documents_come_back(app):
    stored = passage("Zoo", HOUR) | {"delay": 40}
    (identifier,) = app.insert("passages", stored)
    found = app.query("passages:lastBefore", {"stop": "Zoo", "time": 2 * HOUR})
    assert found["_id"] == identifier
    assert {name: found[name] for name in stored} == stored


def test_between_reads_the_range_only(app):
    report_many(app)
    with app.measure() as cost:
        assert len(app.query("passages:between", {"stop": "stop 7", "from": 30 * HOUR, "until": 40 * HOUR})) == 10
    assert cost.documents_read <= 15


def test_latest_reads_what_it_returns(app):
    report_many(app)
    with app.measure() as cost:
        assert len(app.query("passages:latest", {"stop": "stop 7", "count": 10})) == 10
    assert cost.documents_read <= 15


def test_last_before_reads_next_to_nothing(app):
    report_many(app)
    app.insert("passages", passage("closed stop", 3 * HOUR))
    with app.measure() as cost:
        for stop, hour in (("stop 7", 29), ("closed stop", 3)):
            found = app.query("passages:lastBefore", {"stop": stop, "time": 30 * HOUR})
            assert seen([found]) == [(stop, hour)]
    assert cost.documents_read <= 8


def test_one_index_serves_all(app, reference):
    (table,), (expected,) = app.schema()["tables"], reference.schema["tables"]
    assert [index["fields"] for index in table["indexes"]] == [index["fields"] for index in expected["indexes"]]
    assert [kind for kind in table if kind.endswith("Indexes") and table[kind]] == []


def test_the_fields_are_as_given(app, reference):
    (table,), (expected,) = app.schema()["tables"], reference.schema["tables"]
    assert (table["tableName"], table["documentType"]) == (expected["tableName"], expected["documentType"])
