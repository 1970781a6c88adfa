"""What is asked? Job files, search spaces and their expressions, facts of a job, file names."""
