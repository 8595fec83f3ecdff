"""Calls of the API as any program makes them: signed in, patient, page by page. It knows no room of ours."""
