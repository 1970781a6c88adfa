"""What a configuration will need, and what the machine has."""
