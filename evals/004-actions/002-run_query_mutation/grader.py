"""An action as a cache: look in a query, fetch on a miss, and let one mutation decide what is already there."""

from concurrent.futures import ThreadPoolExecutor

BIRDS = {"title": "Bird Talk", "episodes": 12}
RAILS = {"title": "On Rails", "episodes": 3}


def cards(app):
    """What is stored, without system fields, by URL."""
    rows = [(row["url"], {"title": row["title"], "episodes": row["episodes"]}) for row in app.documents("cards")]
    assert len(dict(rows)) == len(rows), "two cards for one URL"
    return dict(rows)


def load(app, url, **options):
    return app.action("cards:load", {"url": url, **options})


def test_a_miss_fetches_and_saves_and_the_next_call_does_not_fetch(app, http):
    birds, rails = f"{http.url}/birds", f"{http.url}/rails"
    http.answer("/birds", json_body=BIRDS)
    http.answer("/rails", json_body=RAILS)
    assert load(app, birds) == {**BIRDS, "cached": False}
    assert load(app, rails) == {**RAILS, "cached": False}
    assert load(app, rails) == {**RAILS, "cached": True}
    assert load(app, birds, refresh=False) == {**BIRDS, "cached": True}
    assert [(request.method, request.path) for request in http.requests] == [("GET", "/birds"), ("GET", "/rails")]
    assert cards(app) == {birds: BIRDS, rails: RAILS}


def test_a_card_answers_when_the_show_is_down(app, http):
    app.insert("cards", [{"url": f"{http.url}/rails", **RAILS}, {"url": f"{http.url}/birds", **BIRDS}])
    http.answer("/birds", status=503)
    assert load(app, f"{http.url}/birds") == {**BIRDS, "cached": True}
    assert http.requests == []


def test_what_follows_the_question_mark_counts(app, http):
    http.answer("/show", json_body=BIRDS)
    http.answer("/show", json_body=RAILS)
    assert load(app, f"{http.url}/show?id=1") == {**BIRDS, "cached": False}
    assert load(app, f"{http.url}/show?id=2") == {**RAILS, "cached": False}
    assert load(app, f"{http.url}/show?id=1") == {**BIRDS, "cached": True}
    assert [request.query for request in http.requests] == [{"id": "1"}, {"id": "2"}]


def test_a_refresh_updates_the_card_in_place(app, http):
    birds, rails = f"{http.url}/birds", f"{http.url}/rails"
    _, before = app.insert("cards", [{"url": rails, **RAILS}, {"url": birds, "title": "Old", "episodes": 0}])
    http.answer("/birds", json_body={**BIRDS, "language": "en", "hosts": ["Bo"]})
    assert load(app, birds, refresh=True) == {**BIRDS, "cached": False}
    assert load(app, birds) == {**BIRDS, "cached": True}
    assert cards(app) == {birds: BIRDS, rails: RAILS}
    assert before in [row["_id"] for row in app.documents("cards")]


BAD = [
    {"status": 503, "json_body": BIRDS},
    {"status": 404, "json_body": BIRDS},
    {"body": "<html>We will be back soon</html>"},
    {"body": ""},
    {"body": "null"},
    {"json_body": {"title": "Bird Talk"}},
    {"json_body": {"episodes": 12}},
    {"json_body": {"title": "Bird Talk", "episodes": "12"}},
    {"json_body": {"title": None, "episodes": 12}},
    {"hang_up": True},
]


def test_a_bad_answer_saves_nothing_and_the_next_call_tries_again(app, http):
    url = f"{http.url}/birds"
    for number, bad in enumerate(BAD, start=1):
        http.forget()
        http.answer("/birds", **bad)
        with app.rejects():
            load(app, url)
        assert cards(app) == {}, f"bad answer number {number} was saved"
    http.forget()
    http.answer("/birds", json_body=BIRDS)
    assert load(app, url) == {**BIRDS, "cached": False}


def test_a_failed_refresh_keeps_the_card(app, http):
    url = f"{http.url}/birds"
    (before,) = app.insert("cards", {"url": url, **BIRDS})
    for bad in (BAD[0], BAD[2], BAD[7], BAD[9]):
        http.forget()
        http.answer("/birds", **{**bad, **({"json_body": RAILS} if "status" in bad else {})})
        with app.rejects():
            load(app, url, refresh=True)
        assert cards(app) == {url: BIRDS}
    assert [row["_id"] for row in app.documents("cards")] == [before]
    assert load(app, url) == {**BIRDS, "cached": True}


def test_misses_at_the_same_time_leave_one_card(app, http):
    http.answer("/new", json_body=BIRDS, delay=0.4, together=5)
    with ThreadPoolExecutor(5) as people:
        answers = list(people.map(lambda url: load(app, url), [f"{http.url}/new"] * 5))
    assert [(answer["title"], answer["episodes"]) for answer in answers] == [("Bird Talk", 12)] * 5
    assert len(cards(app)) == 1
    assert load(app, f"{http.url}/new") == {**BIRDS, "cached": True}


def test_clients_reach_nothing_else(app):
    public = [spec for spec in app.functions() if spec.get("visibility") != {"kind": "internal"}]
    assert [spec.get("identifier") for spec in public] == ["cards.js:load"]


def test_a_look_does_not_read_the_table(app, http):
    app.insert("cards", [{"url": f"{http.url}/show{number}", **RAILS} for number in range(400)])
    http.answer("/birds", json_body=BIRDS)
    with app.measure() as cost:
        assert load(app, f"{http.url}/show300")["cached"] is True
        assert load(app, f"{http.url}/birds")["cached"] is False
        assert load(app, f"{http.url}/birds", refresh=True)["cached"] is False
    assert cost.documents_read <= 20
