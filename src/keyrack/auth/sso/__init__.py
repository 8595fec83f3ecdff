"""Single sign-on by OpenID Connect Core 1.0."""
