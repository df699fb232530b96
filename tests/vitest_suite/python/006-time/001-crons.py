def test_every_five_minutes(app):
    (job,) = app.crons()
    assert (job.name, job.function, job.schedule) == ("sweep", "sweeping:sweep", {"type": "interval", "seconds": 300})
