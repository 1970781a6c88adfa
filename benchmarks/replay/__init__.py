"""Plays recorded runs to a controller, by a clock that jumps from event to event."""
