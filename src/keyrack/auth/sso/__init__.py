"""Single sign-on: people come in by the accounts that they have elsewhere (OpenID Connect Core 1.0)."""
