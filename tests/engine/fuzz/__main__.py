"""`python -m tests.engine.fuzz SECONDS [SEED]`."""

import secrets
import sys

from .batches import Failure, fuzz

if __name__ == "__main__":
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbelow(2**31)
    print(f"fuzz: {seconds:g} s from seed {seed}", flush=True)
    try:
        inputs = fuzz(seconds, seed, lambda line: print(line, flush=True))
    except Failure as failure:
        sys.exit(f"fuzz: FAILED: {failure}")
    print(f"fuzz: {inputs} inputs, no crash, no hang")
