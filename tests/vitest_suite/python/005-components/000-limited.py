def test_two_in_a_minute_for_each_author(app):
    answers = [app.mutation("comments:post", {"author": author}) for author in ("ada", "ada", "ada", "bob")]
    assert answers == [True, True, False, True]


def test_compare_function_spec(app, reference):
    assert [one["identifier"] for one in app.functions()] == [one["identifier"] for one in reference.functions]
