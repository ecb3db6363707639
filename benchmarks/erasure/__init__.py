"""What remains of a user's memories after deletion: the same steps on two products."""
