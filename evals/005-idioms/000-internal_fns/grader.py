"""Internal functions: what the website may call is public, everything else is not, and the logs tell what happened."""

PUBLIC = {"domes:isOpen": "Query", "domes:close": "Mutation", "domes:reportRain": "Action"}
INTERNAL = {"domes:openDomes": "Query", "domes:setOpen": "Mutation", "domes:closeAll": "Action"}


def build(app, **domes):
    app.insert("domes", [{"name": name, "open": is_open} for name, is_open in domes.items()])


def state(app):
    return {dome["name"]: dome["open"] for dome in app.documents("domes")}


def lines(app):
    """The log, in any order; the quotes around a string are the platform's."""
    return sorted(line.replace("'", "") for line in app.logs())


def deployed(app):
    """Path to kind and visibility; files are listed as `domes.js`."""
    return {
        function["identifier"].replace(".js:", ":"): (function["functionType"], function["visibility"]["kind"])
        for function in app.functions()
        if "identifier" in function
    }


def test_each_function_has_its_kind_and_visibility(app):
    expected = {path: (kind, "public") for path, kind in PUBLIC.items()}
    expected |= {path: (kind, "internal") for path, kind in INTERNAL.items()}
    found = deployed(app)
    assert {path: found.get(path) for path in expected} == expected


def test_nothing_else_can_be_called_from_outside(app):
    assert {path for path, (_, visibility) in deployed(app).items() if visibility == "public"} == set(PUBLIC)
    assert [function for function in app.functions() if function["functionType"] == "HttpAction"] == []


def test_the_list_of_open_domes_is_for_the_backend_only(app):
    build(app, Kepler=True, Brahe=True, Galileo=False, Cassini=True)
    with app.refuses("domes:openDomes"):
        app.query("domes:openDomes")
    assert app.as_admin().query("domes:openDomes") == ["Brahe", "Cassini", "Kepler"]


def test_domes_are_opened_by_the_crew_only(app):
    build(app, Kepler=False, Brahe=False)
    with app.refuses("domes:setOpen"):
        app.mutation("domes:setOpen", {"name": "Kepler", "open": True})
    assert state(app) == {"Kepler": False, "Brahe": False}
    assert app.as_admin().mutation("domes:setOpen", {"name": "Kepler", "open": True}) is None
    assert state(app) == {"Kepler": True, "Brahe": False}


def test_all_domes_are_closed_by_the_backend_and_the_crew_only(app):
    build(app, Kepler=True, Brahe=False, Galileo=True)
    with app.refuses("domes:closeAll"):
        app.action("domes:closeAll")
    assert state(app) == {"Kepler": True, "Brahe": False, "Galileo": True}
    assert app.as_admin().action("domes:closeAll") == 2
    assert state(app) == {"Kepler": False, "Brahe": False, "Galileo": False}


def test_visitors_and_buttons_need_no_login(app):
    build(app, Kepler=True, Brahe=True, Galileo=False)
    assert app.mutation("domes:close", {"name": "Kepler"}) is None
    seen = {name: app.query("domes:isOpen", {"name": name}) for name in ("Kepler", "Brahe", "Galileo", "Newton")}
    assert seen == {"Kepler": False, "Brahe": True, "Galileo": False, "Newton": None}


def test_rain_closes_what_is_open(app):
    build(app, Kepler=True, Brahe=False, Galileo=True)
    assert app.action("domes:reportRain", {"millimetres": 0}) == 0
    assert state(app) == {"Kepler": True, "Brahe": False, "Galileo": True}
    assert app.action("domes:reportRain", {"millimetres": 0.2}) == 2
    assert state(app) == {"Kepler": False, "Brahe": False, "Galileo": False}
    assert app.action("domes:reportRain", {"millimetres": 3}) == 0


def test_every_move_is_logged_once(app):
    build(app, Kepler=False, Brahe=True)
    app.as_admin().mutation("domes:setOpen", {"name": "Kepler", "open": True})
    app.mutation("domes:close", {"name": "Brahe"})
    assert lines(app) == ["[LOG] dome Brahe closed", "[LOG] dome Kepler opened"]


def test_actions_log_every_move_too(app):
    """A set: what an action calls may be listed with the action, too."""
    build(app, Kepler=True, Brahe=False, Galileo=True)
    app.action("domes:reportRain", {"millimetres": 1})
    assert set(lines(app)) == {"[LOG] dome Galileo closed", "[LOG] dome Kepler closed"}
    app.insert("domes", {"name": "Halley", "open": True})
    app.as_admin().action("domes:closeAll")
    closed = {f"[LOG] dome {name} closed" for name in ("Galileo", "Halley", "Kepler")}
    assert set(lines(app)) == closed


def test_a_dome_that_does_not_move_is_not_logged(app):
    build(app, Kepler=False, Brahe=True)
    app.mutation("domes:close", {"name": "Kepler"})
    app.as_admin().mutation("domes:setOpen", {"name": "Brahe", "open": True})
    app.query("domes:isOpen", {"name": "Brahe"})
    app.action("domes:reportRain", {"millimetres": 0})
    assert lines(app) == []


def test_an_unknown_dome_is_a_warning(app):
    build(app, Kepler=True)
    assert app.mutation("domes:close", {"name": "Newton"}) is None
    assert app.as_admin().mutation("domes:setOpen", {"name": "Halley", "open": True}) is None
    assert lines(app) == ["[WARN] no dome Halley", "[WARN] no dome Newton"]
    assert state(app) == {"Kepler": True}
