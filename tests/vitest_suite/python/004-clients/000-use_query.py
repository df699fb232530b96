def test_the_query_answers(app):
    app.mutation("notes:add", {"author": "ada", "text": "one"})
    assert len(app.query("notes:of", {"author": "ada"})) == 1


def test_texts_is_exported(files):
    assert "export function texts" in files["src/texts.ts"]


def test_a_component_if_there_is_one_asks_by_use_query(files):
    assert "useQuery(" in files.get("src/Notes.tsx", "useQuery(")
