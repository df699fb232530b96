import re


def test_the_union_is_told_apart_by_its_kind(files):
    text = re.sub(r"\s+", " ", files["convex/shapes.ts"])
    assert 'type Shape = { kind: "circle"; radius: number } | { kind: "square"; side: number }' in text
