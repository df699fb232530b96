def test_asks_the_service(app, http):
    http.answer("/weather", json_body={"celsius": 9})
    assert app.action("weather:temperature", {"service": http.url, "city": "São Paulo"}) == 9
    (request,) = http.requests
    assert request.query == {"city": "São Paulo"}


def test_tells_when_the_service_does_not_know(app, http):
    http.answer("/weather", json_body={"celsius": 7}, status=404)
    with app.rejects(""):
        app.action("weather:temperature", {"service": http.url, "city": "Nowhere"})
