"""Which pixel comes when, what it may see, and which pixels can be coded together."""
