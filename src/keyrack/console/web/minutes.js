// Times in scripts, formatted as in templates (console/local_times.py).

const FORM = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" };

/** A time with its weekday, to the minute, as the clock of the zone shows it. */
export function minuteOf(time, zone) {
  return new Date(time).toLocaleString(document.documentElement.lang, { ...FORM, timeZone: zone });
}
