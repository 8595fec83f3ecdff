// Sends the browser's time zone with forms that need it, and shows times in [data-relative] as "3 minutes ago".
import { whenever } from "./arrivals.js";

whenever("input[data-time-zone]", (input) => {
  input.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
});

const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];
const words = new Intl.RelativeTimeFormat(document.documentElement.lang || "en", { numeric: "auto" });

/** The distance of a moment from now, for example "3 minutes ago". */
function distance(moment) {
  let amount = (moment - Date.now()) / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(amount) < size) return words.format(Math.round(amount), unit);
    amount /= size;
  }
}

function tell(time) {
  const moment = Date.parse(time.dateTime);
  if (Number.isNaN(moment)) return;
  time.title ||= time.textContent;
  time.textContent = distance(moment);
}

const AGEING = "[data-relative] time";
const tellAll = () => document.querySelectorAll(AGEING).forEach(tell);
whenever(AGEING, tell);
setInterval(() => {
  if (!document.hidden) tellAll();
}, 30_000);
// A reloaded element has the server's text again
document.addEventListener("htmx:after:swap", tellAll);
