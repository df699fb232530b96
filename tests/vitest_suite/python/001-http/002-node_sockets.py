import hashlib
import json


def test_reads_the_file_by_a_socket_of_its_own(app, http):
    http.answer("/file", json_body="x" * 1000)
    found = app.action("digest:digestOf", {"url": f"{http.url}/file"})
    assert found == hashlib.sha256(json.dumps("x" * 1000).encode()).hexdigest()
