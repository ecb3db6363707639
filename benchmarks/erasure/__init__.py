"""What is left of a user's memories after they were deleted: the same steps on two products."""
