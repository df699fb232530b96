"""Submissions that mean ill. `make hostile` grades all of them at every level of the cage that this machine has."""
