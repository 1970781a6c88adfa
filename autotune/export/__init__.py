"""What is shipped: a configuration that verl runs, with what it rests on written above it."""
