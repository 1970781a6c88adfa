"""What the report says, as plain frozen values: pure functions of what the store's reader returned."""
