"""Results on their way to the scores backend: what a run has to deliver, the child that delivers it, where it goes."""
