"""The suite on disk: evals, their files, their proofs and their fingerprints."""
