"""The pages: each module has the views and the actions of one section."""
