// The small scripts of all pages. Each listens on the document, so swapped-in elements work too.
import "./choices.js";
import "./code.js";
import "./combobox.js";
import "./copy.js";
import "./dates.js";
import "./dialog.js";
import "./drafts.js";
import "./errors.js";
import "./focus.js";
import "./live.js";
import "./menu.js";
import "./outcome.js";
import "./refresh.js";
import "./selection.js";
import "./theme.js";
