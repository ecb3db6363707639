"""Pure functions over text: the words, the language and the dates of a text. They know no store, clock or locale."""
