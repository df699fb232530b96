"""A list that follows the database: loading, empty and rows are three states, and rows arrive by themselves.

Without it: a page that shows yesterday's rows, or claims that there are none while it is still loading.
"""

APP = "src/App.tsx"
NOTICES = [
    {"title": "Lost cat", "author": "Ada", "rank": 3},
    {"title": "Water off on Friday", "author": "Bo", "rank": 1},
    {"title": "Piano lessons", "author": "Cy", "rank": 2},
    {"title": "Lift repaired", "author": "Di", "rank": 1},
]
ROWS = ["Water off on Friday by Bo", "Lift repaired by Di", "Piano lessons by Cy", "Lost cat by Ada"]


def test_list_returns_whole_notices_by_rank(app):
    app.insert("notices", NOTICES)
    found = app.query("notices:list")
    assert [notice["title"] for notice in found] == [row.partition(" by ")[0] for row in ROWS]
    assert set(found[0]) == {"_id", "_creationTime", "title", "author", "rank"}


def test_list_is_empty_without_notices(app):
    assert app.query("notices:list") == []


def test_loading_is_not_empty(screen):
    screen.render(APP, online=False)
    screen.wait_for_text("Loading notices")
    assert not screen.has_text("The board is empty")
    assert screen.texts(role="listitem") == []


def test_says_so_when_there_are_no_notices(screen):
    screen.render(APP)
    screen.wait_for_text("The board is empty")
    assert not screen.has_text("Loading notices")
    assert screen.texts(role="listitem") == []


def test_shows_the_notices_in_the_order_of_the_query(app, screen):
    app.insert("notices", NOTICES)
    screen.render(APP)
    screen.wait_for_texts(ROWS, role="listitem")
    assert len(screen.elements(role="list")) == 1
    assert not screen.has_text("Loading notices")
    assert not screen.has_text("The board is empty")


def test_follows_the_database_without_asking_again(app, screen):
    screen.render(APP)
    screen.wait_for_text("The board is empty")
    screen.hold_timers()
    app.insert("notices", NOTICES[:1])
    screen.wait_for_texts(["Lost cat by Ada"], role="listitem")
    app.insert("notices", NOTICES[1:])
    screen.wait_for_texts(ROWS, role="listitem")
    app.clear("notices")
    screen.wait_for_text("The board is empty")
    assert screen.errors == []
