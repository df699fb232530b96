def test_knows_who_asks(app):
    ada = app.as_user("ada", name="Ada")
    assert ada.query("who:me", {}) == "Ada"
    assert ada.mutation("who:secret", {}) == "42"
    assert app.query("who:me", {}) is None


def test_tells_strangers_nothing(app):
    with app.rejects(""):
        app.mutation("who:secret", {})
