/** The texts of the app in German. */

/** @type {Record<string, string>} */
export const GERMAN = {
  'app.name': 'Keyrack Drive',
  'app.update': 'Eine neue Version der App ist bereit.',
  'app.update.now': 'Jetzt aktualisieren',
  'app.back': 'Zurück',
  'app.account': 'Konto',
  'app.loading': 'Lädt …',
  'error.network': 'Kein Netz. Versuchen Sie es, sobald Sie eines haben.',
  'error.unknown': 'Das hat nicht geklappt.',
};
