"""Graders of suites in the vitest layout: TypeScript that vitest runs, in a cage of its own."""
