"""Pure functions over text: its words, language and dates. They use no store, clock or locale."""
