"""The endpoints of the app, and those of managers about drivers' accounts."""
