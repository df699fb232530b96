def test_subscribers_see_each_value(app, poll_until):
    with app.subscribe("counter:value", {}) as live:
        seen = [live.next()]
        for by in (2, 5):
            app.mutation("counter:increment", {"by": by})
            seen.append(live.next())
    assert seen == [0, 2, 7]
