"""The Node part of the package (TypeScript in `src/`), and its set-up."""
