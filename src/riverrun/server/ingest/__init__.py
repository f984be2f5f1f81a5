"""What is written to topics through the server: checked, sent once, counted."""
