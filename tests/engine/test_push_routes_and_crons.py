# ruff: noqa: E501 - programs in tables stay on one line
"""What a push refuses in http.ts and crons.ts: the smallest program, the code and the message."""

import pytest

from .support.core import Core
from .support.project import Bundler
from .support.pushes import HEAD, MODULES, SERVER, Files, Refusals, check_refusal, crons, raw_crons, raw_routes, route


def job(schedule: object, **cron: object) -> Files:
    """A cron job that does not come from the library."""
    return raw_crons({"c": {"name": "m:f", "args": [{}], "schedule": schedule, **cron}})


ROUTES = "The `getRoutes()` method of Router did not return the expected type. "
HOURLY = {"type": "hourly", "minuteUTC": 5}
MISLEADING = {"toString": "monday", "valueOf": 1}

REFUSED: Refusals = {
    "http without default": ({"http.ts": "export const x = 1;"}, "InvalidModules", "`convex/http.js` must have a default export of a Router."),
    "http that is no router": ({"http.ts": "export default {};"}, "InvalidModules", "The default export of `convex/http.js` is not a Router."),
    "route without slash": ({"http.ts": SERVER + HEAD + 'const http = httpRouter(); http.route({ path: "x", method: "GET", handler: httpAction(async () => new Response("")) }); export default http;'.replace("import { v }", "")}, "InvalidModules", "path 'x' does not start with a /"),
    "crons without default": ({"crons.ts": "export const x = 1;"}, "InvalidModules", "`convex/crons.js` must have a default export of a Crons object."),
    "crons that are none": ({"crons.ts": "export default {};"}, "InvalidModules", "The default export of `convex/crons.js` is not a Crons object."),
    "cron of a missing function": (crons('crons.interval("c", { seconds: 1 }, internal.m.none)'), "InvalidCron", "The cron job 'c' schedules a function that does not exist: m.js:none"),
    "cron of a query": (crons('crons.interval("c", { seconds: 1 }, api.m.q as any)'), "InvalidCron", "The cron job 'c' schedules a query function, only actions and mutations can be scheduled"),
    "cron expression": (crons('crons.cron("c", "61 * * * *", api.m.f)'), "InvalidCron", "Invalid cron expression '61 * * * *'"),
    "cron with day seven": (crons('crons.cron("c", "0 0 * * 7", api.m.f)'), "InvalidCron", "Invalid cron expression '0 0 * * 7'"),
    "cron that never comes": (crons('crons.cron("c", "0 0 30 2 *", api.m.f)'), "InvalidCron", "will never match any time"),
    "cron twice": (crons('crons.cron("c", "0 0 * * *", api.m.f); crons.cron("c", "0 0 * * *", api.m.f)'), "InvalidModules", "Cron identifier registered twice: c"),
    "route without handler": (route('path: "/a", method: "GET"'), "InvalidModules", "route requires handler"),
    "route without method": (route('path: "/a", handler'), "InvalidModules", "route requires method"),
    "route of another method": (route('path: "/a", method: "HEAD", handler'), "InvalidModules", "'HEAD' is not an allowed HTTP method"),
    "route without path": (route('method: "GET", handler'), "InvalidModules", "Invalid httpRouter route entry: must contain either field 'path' or 'pathPrefix'"),
    "prefix without slash at the end": (route('pathPrefix: "/a", method: "GET", handler'), "InvalidModules", "pathPrefix /a must end with a /"),
    "reserved route": (route('path: "/.files/a", method: "GET", handler'), "InvalidModules", "path '/.files/a' is reserved"),
    "route twice": (route('path: "/a", method: "GET", handler }); http.route({ path: "/a", method: "GET", handler'), "InvalidModules", "Path '/a' for method GET already in use"),
    "route that is no HTTP action": (route('path: "/a", method: "GET", handler: (async () => new Response("")) as any'), "InvalidModules", "arr[0][2] not an HttpAction"),
    "cron identifier": (crons('crons.interval("é", { seconds: 1 }, api.m.f)'), "InvalidModules", "Invalid cron identifier é"),
    "cron without interval": (crons('crons.interval("c", {} as any, api.m.f)'), "InvalidModules", "Must specify one of seconds, minutes, or hours"),
    "cron of half a second": (crons('crons.interval("c", { seconds: 0.5 }, api.m.f)'), "InvalidModules", "Interval must be an integer greater than 0"),
    "cron at minute sixty": (crons('crons.hourly("c", { minuteUTC: 60 }, api.m.f)'), "InvalidModules", "Minute of hour must be an integer from 0 to 59"),
    "cron at hour 24": (crons('crons.daily("c", { hourUTC: 24, minuteUTC: 0 }, api.m.f)'), "InvalidModules", "Hour of day must be an integer from 0 to 23"),
    "cron on an unknown day": (crons('crons.weekly("c", { dayOfWeek: "someday" as any, hourUTC: 1, minuteUTC: 0 }, api.m.f)'), "InvalidModules", 'Day of week must be a string like "monday".'),
    "cron on day 32": (crons('crons.monthly("c", { day: 32, hourUTC: 1, minuteUTC: 0 }, api.m.f)'), "InvalidModules", "Day of month must be an integer from 1 to 31"),
    "cron of a component": (crons('crons.interval("c", { seconds: 1 }, components.c.m.f as any)'), "InvalidModules", "Expected function reference in the current component"),
    "cron with six fields": (crons('crons.cron("c", "0 0 * * * *", api.m.f)'), "InvalidCron", "Invalid cron expression '0 0 * * * *'"),
    "route with both paths": (route('path: "/a", pathPrefix: "/a/", method: "GET", handler'), "InvalidModules", "Invalid httpRouter route: cannot contain both 'path' and 'pathPrefix'"),
    "prefix twice": (route('pathPrefix: "/a/", method: "GET", handler }); http.route({ pathPrefix: "/a/", method: "GET", handler'), "InvalidModules", "GET pathPrefix /a/ is already defined"),
    "routes that are no list": (raw_routes("5"), "InvalidModules", MODULES + ROUTES + "not an array"),
    "route that is no list": (raw_routes("[5]"), "InvalidModules", MODULES + ROUTES + "arr[0] not an array of three"),
    "route whose path is no text": (raw_routes("[[5, 'GET', { isHttp: true }]]"), "InvalidModules", MODULES + ROUTES + "arr[0][0] not a string"),
    "route of a method that cannot be routed": (raw_routes("[['/a', 'HEAD', { isHttp: true }]]"), "InvalidModules", MODULES + ROUTES + "arr[0][1] not a routable method"),
    "cron with a megabyte of arguments": (crons('crons.interval("c", { seconds: 1 }, api.m.f, { a: "x".repeat(1024 * 1024) } as any)'), "InvalidCron", "Arguments of the cron job 'c' are too large"),
    "crons that are no object": (raw_crons([]), "InvalidModules", MODULES + "The default export of `convex/crons.js` is not a Crons object."),
    "cron that is null": (raw_crons({"c": None}), "InvalidModules", MODULES + "The default export of `convex/crons.js` is not a Crons object."),
    "cron whose function is no text": (job(HOURLY, name=MISLEADING), "InvalidModules", "The default export of `convex/crons.js` is not a Crons object."),
    "cron of an unknown schedule": (job({"type": "yearly"}), "InvalidCron", "The cron job 'c' has an invalid schedule"),
    "cron whose schedule has a toString": (job({"type": {"toString": "hourly", "valueOf": 1}}), "InvalidCron", "The cron job 'c' has an invalid schedule"),
    "cron whose day has a toString": (job({"type": "weekly", "dayOfWeek": MISLEADING, "hourUTC": 1}), "InvalidCron", "The cron job 'c' has an invalid dayOfWeek"),
    "cron whose hour is a text": (job({"type": "daily", "hourUTC": "1"}), "InvalidCron", "The cron job 'c' has an invalid hourUTC"),
    "cron whose expression is a list": (job({"type": "cron", "cron": ["* * * * *"]}), "InvalidCron", "The cron job 'c' has an invalid cron expression"),
    "cron without time": (job({"type": "interval", "seconds": 0}), "InvalidCron", "Interval must be positive"),
    "cron identifier without the library": (raw_crons({"é": {"name": "m:f", "args": [{}], "schedule": HOURLY}}), "InvalidCron", "Invalid cron identifier é"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_push_is_refused(core: Core, bundler: Bundler, files: Files, code: str, text: str) -> None:
    check_refusal(core, bundler, files, code, text)


ACCEPTED = {
    "cron without a name": crons('crons.interval("", { seconds: 1 }, api.m.f)'),
    "cron whose arguments its function refuses": crons('crons.interval("c", { seconds: 1 }, api.m.f, { wrong: 1 } as any)'),
    "cron job by hand": job(HOURLY),
    "functions beside a router": {"http.ts": route('path: "/a", method: "GET", handler')["http.ts"] + HEAD.replace(", httpAction", "") + "export const f = query({ args: {}, handler: async () => 1 });"},
}  # fmt: skip


@pytest.mark.parametrize("files", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_push_is_accepted(core: Core, bundler: Bundler, files: Files) -> None:
    bundler.push(core, files)
