"""A small evaluator of the Dataview query language, written from the plugin's public documentation only."""
