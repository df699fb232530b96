def test_counts(app):
    app.mutation("counter:increment", {"by": 4})
    assert app.query("counter:value", {}) == 4


def test_there_are_own_tests(files):
    text = files["convex/counter.test.ts"]
    assert "toBe(3)" in text
    assert "convexTest(" in text
