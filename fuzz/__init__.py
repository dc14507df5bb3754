"""Coverage-guided fuzzing under sanitizers. See docs/internals/fuzzing.md; ``scripts/fuzz`` starts it."""
