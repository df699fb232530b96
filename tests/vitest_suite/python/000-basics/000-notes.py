def test_compare_schema(app, reference):
    assert app.schema() == reference.schema


def test_compare_function_spec(app, reference):
    def bare(functions):
        return [{key: value for key, value in one.items() if key != "returns"} for one in functions]

    assert bare(app.functions()) == bare(reference.functions)


def test_keeps_notes_apart_by_author(app):
    app.mutation("notes:add", {"author": "ada", "text": "one"})
    app.mutation("notes:add", {"author": "bob", "text": "two"})
    assert [note["text"] for note in app.query("notes:of", {"author": "ada"})] == ["one"]
    assert len(app.documents("notes")) == 2


def test_refuses_a_note_without_text(app):
    with app.rejects("ArgumentValidationError"):
        app.mutation("notes:add", {"author": "ada"})
