"""A component's sub-transaction: a failure that the caller catches undoes the component's writes, and only those."""

from concurrent.futures import ThreadPoolExecutor


def staff(app, function, **args):
    """Call the component as from the dashboard."""
    return app.as_admin().mutation(f"seats:{function}", args, component="seating")


def open_hall(app, *labels):
    staff(app, "add", labels=labels)


def place(app, *requests, at_least=0):
    wanted = [{"guest": guest, "labels": list(labels)} for guest, labels in requests]
    return app.mutation("bookings:place", {"requests": wanted, "atLeast": at_least})


def holders(app):
    return {seat["label"]: seat["holder"] for seat in app.query("bookings:seats")}


def rows(app):
    return [(row["guest"], row["labels"], row["status"]) for row in app.documents("requests")]


def test_the_component_keeps_the_seats_and_the_app_the_requests(app):
    open_hall(app, "B1", "A2", "A1")
    open_hall(app, "A2", "A3")
    free = [{"label": label, "holder": None} for label in ("A1", "A2", "A3", "B1")]
    assert app.as_admin().query("seats:list", {}, component="seating") == free
    assert app.query("bookings:seats") == free
    assert [table["tableName"] for table in app.schema()["tables"]] == ["requests"]


def test_the_component_reserves_all_seats_or_none(app):
    open_hall(app, "A1", "A2", "A3")
    assert staff(app, "reserve", labels=["A2"], holder="zoe") is None
    for labels in (["A1", "A2"], ["A2", "A1"], ["A1", "Z9"], ["A3", "A1", "A3"]):
        with app.rejects():
            staff(app, "reserve", labels=labels, holder="ann")
        with app.rejects():
            staff(app, "reserve", labels=["A2"], holder="zoe")
        assert holders(app) == {"A1": None, "A2": "zoe", "A3": None}
    staff(app, "reserve", labels=["A3", "A1"], holder="ann")
    assert holders(app) == {"A1": "ann", "A2": "zoe", "A3": "ann"}


def test_a_request_that_fails_is_recorded_and_holds_nothing(app):
    open_hall(app, "A1", "A2", "A3")
    assert place(app, ("zoe", ["A3"])) == ["seated"]
    assert place(app, ("ann", ["A1", "A2", "A3"])) == ["waiting"]
    assert holders(app) == {"A1": None, "A2": None, "A3": "zoe"}
    assert rows(app) == [("zoe", ["A3"], "seated"), ("ann", ["A1", "A2", "A3"], "waiting")]


def test_only_the_request_that_fails_is_undone(app):
    open_hall(app, "A1", "A2", "A3", "A4")
    wanted = [
        ("ann", ["A1"]),
        ("bo", ["A2", "A3", "A1"]),
        ("cy", ["A4", "Z9"]),
        ("dee", ["A3", "A4"]),
        ("eve", []),
        ("fay", ["A2", "A2"]),
    ]
    statuses = ["seated", "waiting", "waiting", "seated", "seated", "waiting"]
    assert place(app, *wanted, at_least=3) == statuses
    assert holders(app) == {"A1": "ann", "A2": None, "A3": "dee", "A4": "dee"}
    assert rows(app) == [(*request, status) for request, status in zip(wanted, statuses, strict=True)]


def test_a_guest_keeps_the_seats_of_an_earlier_request(app):
    open_hall(app, "A1", "A2", "A3")
    assert place(app, ("ann", ["A1"]), ("ann", ["A2", "A1"]), ("ann", ["A3"])) == ["seated", "waiting", "seated"]
    assert place(app, ("ann", ["A2", "A3"])) == ["waiting"]
    assert holders(app) == {"A1": "ann", "A2": None, "A3": "ann"}


def test_a_call_that_throws_leaves_nothing_behind(app):
    open_hall(app, "A1", "A2", "A3")
    place(app, ("zoe", ["A3"]), at_least=1)
    with app.rejects():
        place(app, ("ann", ["A1"]), ("bo", ["A2", "A3"]), ("cy", ["A2"]), at_least=3)
    assert holders(app) == {"A1": None, "A2": None, "A3": "zoe"}
    assert rows(app) == [("zoe", ["A3"], "seated")]
    assert place(app, ("ann", ["A1"]), ("bo", ["A2", "A3"]), ("cy", ["A2"]), at_least=2) == [
        "seated",
        "waiting",
        "seated",
    ]


def test_nothing_at_all(app):
    assert app.query("bookings:seats") == []
    assert place(app) == []
    with app.rejects():
        place(app, at_least=1)
    assert place(app, ("ann", ["A1"])) == ["waiting"]
    assert rows(app) == [("ann", ["A1"], "waiting")]


def test_every_seat_has_one_holder_when_many_book_at_once(app):
    labels = ["A1", "A2", "A3", "A4"]
    parties = [("ann", labels[:2]), ("bo", labels[1:3]), ("cy", labels[2:]), ("dee", [labels[3], labels[0]])]
    open_hall(app, *labels)
    with ThreadPoolExecutor(len(parties)) as people:
        answers = list(people.map(lambda request: place(app, request)[0], parties))
    seated = [request for request, answer in zip(parties, answers, strict=True) if answer == "seated"]
    assert seated, "somebody is first"
    held = {label: holder for label, holder in holders(app).items() if holder is not None}
    assert held == {label: guest for guest, some in seated for label in some}
    assert sum(len(some) for _, some in seated) == len(held)


def test_it_is_done_when_it_returns(app):
    open_hall(app, "A1")
    with app.measure() as cost:
        place(app, ("ann", ["A1"]), ("bo", ["A1"]))
    assert cost.functions_scheduled == 0
    assert holders(app) == {"A1": "ann"}
