"""What verl accepts: its configuration composed, checked and written."""
