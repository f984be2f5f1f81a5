"""Programs that run on Spark: started, watched, stopped, upgraded, backed up."""
