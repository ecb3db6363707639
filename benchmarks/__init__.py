"""What the figures in the documentation were measured with; apart from the tests, and not part of the package."""
