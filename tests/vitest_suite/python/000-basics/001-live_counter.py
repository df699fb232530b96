def test_subscribers_see_each_value(app):
    with app.subscribe("counter:value", {}) as live:
        assert live.value() == 0
        for by, value in ((2, 2), (5, 7)):
            app.mutation("counter:increment", {"by": by})
            live.wait_for(lambda seen, value=value: seen == value, seconds=3)
