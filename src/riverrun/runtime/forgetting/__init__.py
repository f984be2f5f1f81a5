"""`riverrun forget`: a subject's key is destroyed, and what was written is searched for copies."""
