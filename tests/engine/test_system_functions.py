# ruff: noqa: E501 - programs in tables stay on one line
"""The system functions that graders, dashboards and the CLI call."""

import pytest

from .support.core import ControlError, Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "b.ts": """
        import { query, mutation, internalAction } from "./_generated/server";
        import { v } from "convex/values";
        export const zebra = query({ args: { a: v.optional(v.id("rows")) }, returns: v.null(), handler: async () => null });
        export const apple = mutation(async () => 1);
        export const hidden = internalAction({ args: {}, handler: async () => 1 });
    """,
    "http.ts": 'import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter(); http.route({ path: "/a", method: "GET", handler: httpAction(async () => new Response()) }); export default http;',
    "schema.ts": 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ rows: defineTable({ n: v.number() }).index("by_n", ["n"]) });',
}


def system(app: Core, name: str, kind: str = "Query", /, **args: object) -> object:
    return app.run(f"_system/{name}", args, identity="admin", kind=kind)


def test_documents_are_listed_newest_first(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"n": n} for n in range(5)])
    assert [row["n"] for row in system(fresh, "frontend/listTableScan", table="rows", limit=3)] == [4, 3, 2]
    assert system(fresh, "frontend/listTableScan", table="nothing", limit=3) == []
    assert system(fresh, "frontend/listTableScan", table="", limit=3) == []
    error = fresh.fails("_system/frontend/listTableScan", {"table": "_storage", "limit": 1}, identity="admin")
    assert "System tables can only be accessed from db.system.query()." in error.message


def test_documents_are_added_by_the_rules(fresh: Core) -> None:
    assert system(fresh, "frontend/addDocument", "Mutation", table="rows", documents=[{"n": 1}, {"n": 2}]) == {
        "success": True
    }
    error = fresh.fails(
        "_system/frontend/addDocument",
        {"table": "rows", "documents": [{"n": 3}, {"n": "x"}]},
        identity="admin",
        kind="Mutation",
    )
    assert error.data.startswith(
        'Failed to insert or update a document in table "rows" because it does not match the schema:'
    )
    assert len(fresh.control("list", table="rows")["documents"]) == 2
    many = system(fresh, "frontend/addDocument", "Mutation", table="rows", documents=[{"n": 1}] * 4097)
    assert many["success"] is False


def test_tables_are_cleared_in_pages(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"n": n} for n in range(4500)])
    first = system(fresh, "frontend/clearTablePage", "Mutation", tableName="rows", cursor=None)
    assert (first["deleted"], first["hasMore"]) == (4000, True)
    second = system(fresh, "frontend/clearTablePage", "Mutation", tableName="rows", cursor=first["continueCursor"])
    assert (second["deleted"], second["hasMore"]) == (500, False)
    assert fresh.control("list", table="rows")["documents"] == []


def test_functions_are_described_in_the_order_of_the_source(fresh: Core) -> None:
    spec = system(fresh, "cli/modules:apiSpec")
    assert [item.get("identifier") or item["path"] for item in spec] == [
        "b.js:zebra",
        "b.js:apple",
        "b.js:hidden",
        "/a",
        "p.js:a",
        "p.js:innerM",
        "p.js:innerQ",
        "p.js:m",
        "p.js:q",
    ]
    by_name = {item.get("identifier"): item for item in spec}
    assert by_name["b.js:zebra"] == {
        "identifier": "b.js:zebra",
        "functionType": "Query",
        "visibility": {"kind": "public"},
        "returns": {"type": "null"},
        "args": {
            "type": "object",
            "value": {"a": {"fieldType": {"type": "id", "tableName": "rows"}, "optional": True}},
        },
    }
    assert (by_name["b.js:apple"]["args"], by_name["b.js:apple"]["returns"]) == ({"type": "any"}, None)
    assert by_name["b.js:hidden"]["visibility"] == {"kind": "internal"}
    assert {"functionType": "HttpAction", "method": "GET", "path": "/a"} in spec


def test_the_schema_and_the_tables(fresh: Core) -> None:
    import json

    assert json.loads(system(fresh, "frontend/getSchemas")["active"]) == fresh.control("schema")
    assert system(fresh, "cli/tables", paginationOpts={"numItems": 10, "cursor": None})["page"] == [{"name": "rows"}]
    assert system(fresh, "frontend/getTableMapping")["10001"] == "rows"


def test_variables_of_the_platform_can_be_asked_for_by_name(fresh: Core) -> None:
    """The CLI of 1.31.7 to 1.35 finds the address of HTTP actions in this way."""
    asked = "cli/queryEnvironmentVariables:get"
    assert system(fresh, asked, name="CONVEX_SITE_URL") == {"name": "CONVEX_SITE_URL", "value": fresh.site}
    assert system(fresh, asked, name="CONVEX_CLOUD_URL") == {"name": "CONVEX_CLOUD_URL", "value": fresh.url}
    assert system(fresh, asked, name="NOTHING") is None


def test_documents_are_changed_and_deleted(fresh: Core) -> None:
    first, second = fresh.control("insert", table="rows", documents=[{"n": 1}, {"n": 2}])["ids"]
    assert system(fresh, "frontend/replaceDocument", "Mutation", id=first, document={"n": 9}) == {"success": True}
    assert system(fresh, "frontend/patchDocumentsFields", "Mutation", table="rows", fields={"n": 7}, ids=[second]) == {
        "success": True
    }
    assert [row["n"] for row in fresh.control("list", table="rows")["documents"]] == [9, 7]
    assert system(fresh, "frontend/getById", id=first)["n"] == 9
    assert system(fresh, "frontend/deleteDocuments", "Mutation", toDelete=[{"id": first, "tableName": "rows"}]) == {
        "success": True
    }
    assert system(fresh, "frontend/getById", id=first) is None
    assert system(fresh, "frontend/tableSize", tableName="rows") == 1


def test_only_a_plain_admin_writes_through_them(fresh: Core) -> None:
    with pytest.raises(ControlError) as refused:
        fresh.run(
            "_system/frontend/addDocument",
            {"table": "rows", "documents": []},
            kind="Mutation",
            identity={"issuer": "https://i", "subject": "s"},
        )
    assert refused.value.code == "SystemIdentityRequired"


def test_extra_arguments_are_refused(fresh: Core) -> None:
    error = fresh.fails("_system/frontend/listTableScan", {"table": "rows", "limit": 1, "odd": 1}, identity="admin")
    assert error.detail.startswith("Uncaught Error: Object contains extra field `odd`")
