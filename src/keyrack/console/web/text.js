// Data that scripts show, as in templates (console/shown_text.py).

/** The text with `[U+202E]` in place of each character that changes the direction of others. */
export function visible(text) {
  return text?.replace(/[\u202a-\u202e\u2066-\u2069]/g, (control) => `[U+${control.codePointAt(0).toString(16).toUpperCase()}]`);
}
