"""Files of a folder as the records of a stream: each row once, new files as they come."""
