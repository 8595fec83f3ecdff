// What every page loads: the small scripts of the common parts. Each listens on the document, so that what is swapped in works too.
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
