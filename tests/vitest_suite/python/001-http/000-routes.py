def test_echoes(app):
    answer = app.request("/echo", method="POST", body="hello")
    assert (answer.status, answer.headers["x-kind"], answer.text) == (201, "echo", "hello")


def test_serves_what_is_below_the_prefix(app):
    assert app.request("/files/a/b.txt").text == "a/b.txt"


def test_knows_no_other_method(app):
    assert app.request("/echo").status == 404
