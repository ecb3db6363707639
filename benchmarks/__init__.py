"""The benchmarks behind the figures in the documentation; separate from the tests, and not part of the package."""
