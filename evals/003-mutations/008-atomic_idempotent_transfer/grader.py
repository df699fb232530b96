"""Atomic, idempotent transfer: key, check, both balances and the record live and die in one mutation."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

DECOYS = [{"tag": "cy", "cents": 700}, {"tag": "dee", "cents": 0}]


def open_wallets(app, **cents):
    app.insert("wallets", [*DECOYS, *({"tag": tag, "cents": amount} for tag, amount in cents.items())])


def transfer(app, request, source, target, cents):
    wanted = {"requestId": request, "from": source, "to": target, "cents": cents}
    return app.mutation("wallets:transfer", wanted)


def balances(app):
    decoys = {row["tag"] for row in DECOYS}
    wallets = {row["tag"]: row["cents"] for row in app.documents("wallets")}
    assert {tag: wallets.pop(tag) for tag in decoys} == {row["tag"]: row["cents"] for row in DECOYS}
    return wallets


def at_once(app, requests):
    """The answers of requests that are sent together; None for one that was refused."""

    def send(request):
        answers = []
        with suppress(AssertionError), app.rejects():
            answers.append(transfer(app, *request))
        return answers[0] if answers else None

    with ThreadPoolExecutor(len(requests)) as phones:
        return list(phones.map(send, requests))


def test_money_moves_and_is_recorded(app):
    open_wallets(app, bo=40, ann=100)
    answer = transfer(app, "r1", "ann", "bo", 30)
    assert balances(app) == {"ann": 70, "bo": 70}
    (row,) = app.documents("transfers")
    assert answer == {"transferId": row.pop("_id"), "left": 70}
    row.pop("_creationTime")
    assert row == {"requestId": "r1", "from": "ann", "to": "bo", "cents": 30, "left": 70}
    assert transfer(app, "r2", "bo", "ann", 70)["left"] == 0
    assert balances(app) == {"ann": 140, "bo": 0}


def test_a_replay_changes_nothing_and_answers_as_the_first_time(app):
    open_wallets(app, ann=100, bo=0)
    first = transfer(app, "r1", "ann", "bo", 60)
    transfer(app, "r2", "bo", "ann", 10)
    assert transfer(app, "r1", "ann", "bo", 60) == first
    assert balances(app) == {"ann": 50, "bo": 50}
    second = transfer(app, "r3", "ann", "bo", 50)
    assert transfer(app, "r3", "ann", "bo", 50) == second, "the money is gone"
    app.clear("wallets")
    assert transfer(app, "r1", "ann", "bo", 60) == first, "the wallets are gone"
    assert app.documents("wallets") == []
    assert len(app.documents("transfers")) == 3


def test_a_used_request_is_not_good_for_another_transfer(app):
    open_wallets(app, ann=100, bo=100)
    transfer(app, "r1", "ann", "bo", 10)
    for other in (("ann", "bo", 11), ("bo", "ann", 10), ("ann", "cy", 10), ("cy", "bo", 10)):
        with app.rejects():
            transfer(app, "r1", *other)
    assert balances(app) == {"ann": 90, "bo": 110}
    assert len(app.documents("transfers")) == 1


def test_a_refused_transfer_costs_nothing_and_can_be_sent_again(app):
    open_wallets(app, bo=5, ann=100)
    for refused in (("ann", "bo", 101), ("ann", "nobody", 10), ("nobody", "bo", 10), ("ann", "ann", 10)):
        with app.rejects():
            transfer(app, "r1", *refused)
        assert balances(app) == {"ann": 100, "bo": 5}
        assert app.documents("transfers") == []
    transfer(app, "r2", "bo", "ann", 5)
    assert transfer(app, "r1", "ann", "bo", 101)["left"] == 4


def test_only_whole_positive_cents_move(app):
    open_wallets(app, ann=100, bo=100)
    for cents in (0, -20, 0.5, 20.25, float("nan"), float("inf"), float("-inf")):
        with app.rejects():
            transfer(app, "r1", "ann", "bo", cents)
        assert balances(app) == {"ann": 100, "bo": 100}
    assert app.documents("transfers") == []
    assert transfer(app, "r1", "ann", "bo", 1)["left"] == 99


def test_copies_that_arrive_together_pay_once(app):
    open_wallets(app, ann=100, bo=0)
    answers = at_once(app, [("r1", "ann", "bo", 30)] * 5)
    assert answers[0] is not None
    assert answers == [answers[0]] * 5
    assert balances(app) == {"ann": 70, "bo": 30}
    assert len(app.documents("transfers")) == 1


def test_transfers_that_arrive_together_cannot_share_a_request(app):
    open_wallets(app, **{f"tag{index}": 50 for index in range(10)})
    answers = at_once(app, [("r1", f"tag{index}", f"tag{index + 5}", 50) for index in range(5)])
    assert len([answer for answer in answers if answer]) == 1
    assert sorted(balances(app).values()) == [0, *[50] * 8, 100]
    assert len(app.documents("transfers")) == 1


def test_requests_that_arrive_together_never_overdraw(app):
    open_wallets(app, ann=100, bo=0)
    answers = at_once(app, [(f"r{number}", "ann", "bo", 30) for number in (1, 2, 3, 4, 5) for _ in range(2)])
    first, second = answers[::2], answers[1::2]
    assert first == second
    paid = [answer for answer in first if answer]
    assert sorted(answer["left"] for answer in paid) == [10, 40, 70]
    assert balances(app) == {"ann": 10, "bo": 90}
    assert sorted(row["_id"] for row in app.documents("transfers")) == sorted(row["transferId"] for row in paid)


def test_the_total_stays_when_money_flows_both_ways(app):
    open_wallets(app, ann=500, bo=500)
    ways = [("ann", "bo", 7), ("bo", "ann", 4), ("ann", "bo", 2), ("bo", "ann", 1)] * 2
    assert None not in at_once(app, [(f"r{index}", *way) for index, way in enumerate(ways)])
    moved = 2 * (7 - 4 + 2 - 1)
    assert balances(app) == {"ann": 500 - moved, "bo": 500 + moved}


def test_it_is_done_when_it_returns_and_reads_a_handful_of_rows(app):
    app.insert("wallets", [{"tag": f"tag{number}", "cents": 50} for number in range(400)])
    past = {"from": "tag1", "to": "tag2", "cents": 1, "left": 3}
    app.insert("transfers", [{"requestId": f"old{number}", **past} for number in range(400)])
    with app.measure() as cost:
        transfer(app, "new", "tag300", "tag40", 50)
        transfer(app, "new", "tag300", "tag40", 50)
    assert cost.documents_read <= 30
    assert cost.functions_scheduled == 0
    assert app.scheduled() == []
