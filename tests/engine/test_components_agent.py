# ruff: noqa: E501 - programs in tables stay on one line
"""@convex-dev/agent: threads, generation, tools, streams and search, against models that the project brings along."""

from typing import Any

import pytest

from .support.core import Core

PROJECT = "agent"
AGENT = "t.components.agent"


def act(app: Core, code: str, **args: Any) -> Any:
    return app.run("p:a", {"code": code, "args": args})


def thread(app: Core, user: str = "ann", title: str = "A talk") -> str:
    code = f"return await t.agents.createThread(ctx, {AGENT}, {{ userId: '{user}', title: '{title}' }})"
    return app.run("p:m", {"code": code})


def messages(app: Core, thread_id: str) -> list[dict[str, Any]]:
    code = f"return await t.agents.listMessages(ctx, {AGENT}, {{ threadId: args.thread, paginationOpts: {{ cursor: null, numItems: 50 }} }})"
    return app.run("p:q", {"code": code, "args": {"thread": thread_id}})["page"][::-1]


def texts(app: Core, thread_id: str) -> list[tuple[str, str]]:
    return [(row["message"]["role"], row.get("text", "")) for row in messages(app, thread_id)]


def say(app: Core, thread_id: str, prompt: str, options: str = "{}", agent: str = "mirror") -> str:
    code = f"return (await t.{agent}.generateText(ctx, {{ threadId: args.thread, userId: 'ann' }}, {{ prompt: args.prompt }}, {options})).text"
    return act(app, code, thread=thread_id, prompt=prompt)


def test_threads_have_metadata_and_an_owner(fresh: Core) -> None:
    first, second = thread(fresh), thread(fresh, title="Orbit of the moon")
    thread(fresh, user="bob")
    fresh.run(
        "p:m",
        {
            "code": f"await t.agents.updateThreadMetadata(ctx, {AGENT}, {{ threadId: args, patch: {{ summary: 'short' }} }})",
            "args": first,
        },
    )
    metadata = fresh.run(
        "p:q", {"code": f"return await t.agents.getThreadMetadata(ctx, {AGENT}, {{ threadId: args }})", "args": first}
    )
    assert (metadata["title"], metadata["summary"], metadata["userId"]) == ("A talk", "short", "ann")
    listing = f"return await ctx.runQuery({AGENT}.threads.listThreadsByUserId, {{ userId: 'ann', paginationOpts: {{ cursor: args ?? null, numItems: 1 }} }})"
    page = fresh.run("p:q", {"code": listing})
    rest = fresh.run("p:q", {"code": listing, "args": page["continueCursor"]})
    assert [row["_id"] for row in page["page"] + rest["page"]] == [second, first]
    found = fresh.run(
        "p:q",
        {
            "code": f"return await t.agents.searchThreadTitles(ctx, {AGENT}, {{ userId: 'ann', query: 'moon', limit: 5 }})"
        },
    )
    assert [row["_id"] for row in found] == [second]


def test_generated_text_is_kept_with_its_prompt_and_seen_by_the_next(fresh: Core) -> None:
    talk = thread(fresh)
    assert say(fresh, talk, "hello") == "system: Repeat. | user: hello"
    again = say(fresh, talk, "more")
    assert again == "system: Repeat. | user: hello | assistant: system: Repeat. | user: hello | user: more"
    assert [(role, text) for role, text in texts(fresh, talk)] == [
        ("user", "hello"),
        ("assistant", "system: Repeat. | user: hello"),
        ("user", "more"),
        ("assistant", again),
    ]
    rows = messages(fresh, talk)
    assert [(row["order"], row["stepOrder"], row["status"]) for row in rows] == [
        (0, 0, "success"),
        (0, 1, "success"),
        (1, 0, "success"),
        (1, 1, "success"),
    ]
    assert (rows[1]["agentName"], rows[1]["usage"]["promptTokens"]) == ("mirror", 2)


def test_messages_come_in_pages(fresh: Core) -> None:
    talk = thread(fresh)
    save = f"await t.agents.saveMessages(ctx, {AGENT}, {{ threadId: args, messages: Array.from({{ length: 7 }}, (_, n) => ({{ role: 'user', content: 'm' + n }})) }})"
    fresh.run("p:m", {"code": save, "args": talk})
    listing = f"return await t.agents.listMessages(ctx, {AGENT}, {{ threadId: args.talk, paginationOpts: {{ cursor: args.cursor, numItems: 3 }} }})"
    seen: list[list[str]] = []
    cursor, done = None, False
    while not done:
        page = fresh.run("p:q", {"code": listing, "args": {"talk": talk, "cursor": cursor}})
        seen.append([row["text"] for row in page["page"]])
        cursor, done = page["continueCursor"], page["isDone"]
        assert len(seen) < 5
    assert [text for page in seen for text in page] == [f"m{number}" for number in reversed(range(7))]
    assert len(seen[0]) == 3


def test_a_tool_runs_and_its_result_goes_back_to_the_model(fresh: Core) -> None:
    talk = thread(fresh)
    assert say(fresh, talk, "Remember milk", agent="worker") == "It is noted."
    assert [row["text"] for row in fresh.control("list", table="notes")["documents"]] == ["milk"]
    rows = messages(fresh, talk)
    assert [row["message"]["role"] for row in rows] == ["user", "assistant", "tool", "assistant"]
    [result] = rows[2]["message"]["content"]
    assert (result["toolName"], result["output"]["value"]) == ("remember", "kept milk for ann")


def test_an_object_by_its_schema(fresh: Core) -> None:
    talk = thread(fresh)
    code = "return (await t.judge.generateObject(ctx, { threadId: args.talk }, { prompt: 'How is it?', schema: t.z.object({ verdict: t.z.string(), points: t.z.number() }) })).object"
    assert act(fresh, code, talk=talk) == {"verdict": "good", "points": 7}
    assert texts(fresh, talk)[-1] == ("assistant", '{"verdict":"good","points":7}')


def test_a_model_that_fails_leaves_a_failed_message(fresh: Core) -> None:
    talk = thread(fresh)
    code = "await t.broken.generateText(ctx, { threadId: args.talk }, { prompt: 'hello', maxRetries: 0 })"
    assert "the model is down" in fresh.fails("p:a", {"code": code, "args": {"talk": talk}}).message
    assert ("user", "success") in [(row["message"]["role"], row["status"]) for row in messages(fresh, talk)]
    failed = fresh.control("list", table="messages", component="agent")["documents"]
    assert [row["status"] for row in failed if row.get("error")] == ["failed"]


def test_streamed_text_is_kept_as_deltas_and_as_a_message(fresh: Core) -> None:
    talk = thread(fresh)
    code = "const result = await t.talker.streamText(ctx, { threadId: args.talk }, { prompt: 'count' }, { saveStreamDeltas: { chunking: 'word', throttleMs: 0 } }); let text = ''; for await (const part of result.textStream) text += part; await result.consumeStream(); return text"
    assert act(fresh, code, talk=talk) == "one two three four five six"
    assert texts(fresh, talk) == [("user", "count"), ("assistant", "one two three four five six")]
    listed = fresh.run("project:streams", {"threadId": talk, "streamArgs": {"kind": "list", "startOrder": 0}})
    [stream] = listed["messages"]
    assert stream["status"] == "finished"
    ask = {"kind": "deltas", "cursors": [{"streamId": stream["streamId"], "cursor": 0}]}
    deltas = fresh.run("project:streams", {"threadId": talk, "streamArgs": ask})["deltas"]
    parts = [part for delta in deltas for part in delta["parts"]]
    assert (
        "".join(part.get("delta", "") for part in parts if part["type"] == "text-delta")
        == "one two three four five six"
    )
    assert [delta["start"] for delta in deltas] == sorted(delta["start"] for delta in deltas)


def test_finished_streams_are_removed_after_a_while(fresh: Core) -> None:
    fresh.control("clock.start", time=1_800_000_000_000)
    talk = thread(fresh)
    prompt = fresh.run(
        "p:m",
        {
            "code": f"return (await t.agents.saveMessage(ctx, {AGENT}, {{ threadId: args, prompt: 'count' }})).messageId",
            "args": talk,
        },
    )
    fresh.run("project:answer", {"threadId": talk, "promptMessageId": prompt}, identity="admin")
    assert texts(fresh, talk)[-1] == ("assistant", "one two three four five six")
    fresh.control("clock.advance", ms=3_600_000)
    assert fresh.control("list", table="streamDeltas", component="agent")["documents"] == []
    assert texts(fresh, talk)[-1] == ("assistant", "one two three four five six")


@pytest.mark.parametrize("kind", ["vectorSearch", "textSearch"])
def test_messages_of_other_threads_are_found_by_search(fresh: Core, kind: str) -> None:
    for prompt in ("my cat is asleep", "a rocket left", "the soup is hot"):
        say(fresh, thread(fresh), prompt)
    word = "kitten" if kind == "vectorSearch" else "asleep"
    options = f"{{ contextOptions: {{ recentMessages: 0, searchOtherThreads: true, searchOptions: {{ limit: 1, {kind}: true, vectorScoreThreshold: 0.5, messageRange: {{ before: 0, after: 0 }} }} }} }}"
    answer = say(fresh, thread(fresh), f"what about my {word}", options)
    assert "my cat is asleep" in answer
    assert "rocket" not in answer
    assert "soup" not in answer


def test_embeddings_are_in_the_components_own_vector_table(fresh: Core) -> None:
    say(fresh, thread(fresh), "my cat is asleep")
    rows = fresh.control("list", table="embeddings_128", component="agent")["documents"]
    assert {row["model"] for row in rows} == {"meanings"}
    assert rows
    talk = thread(fresh)
    code = f"return await ctx.runAction({AGENT}.messages.searchMessages, {{ searchAllMessagesForUserId: 'ann', embedding: Array.from({{ length: 128 }}, (_, n) => (n === 0 ? 1 : 0.001)), embeddingModel: 'meanings', vectorSearch: true, limit: 3, messageRange: {{ before: 0, after: 0 }} }})"
    found = act(fresh, code, talk=talk)
    assert found[0]["text"] == "my cat is asleep"


def test_threads_can_be_deleted(fresh: Core) -> None:
    talk = thread(fresh)
    say(fresh, talk, "hello")
    act(fresh, f"await ctx.runAction({AGENT}.threads.deleteAllForThreadIdSync, {{ threadId: args.talk }})", talk=talk)
    for table in ("threads", "messages", "embeddings_128"):
        assert fresh.control("list", table=table, component="agent")["documents"] == []
