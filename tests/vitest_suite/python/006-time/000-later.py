def test_orders_are_done_in_the_end(app, poll_until):
    app.mutation("orders:order", {"what": "tea"})
    assert [order["done"] for order in app.documents("orders")] == [False]
    poll_until(lambda: app.documents("orders")[0]["done"], seconds=3)


def test_nobody_else_may_finish_one(app):
    with app.refuses("orders:finish"):
        app.mutation("orders:finish", {"id": "x"})
