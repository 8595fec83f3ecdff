// [data-live="cars,users"]: the badge of live updates, and the one stream of the page. A change becomes the event "keyrack:changed" of the
// document, with the topic as detail ("gap": read everything again), and for example "keyrack:changed-cars". data-since: the position of
// the page; without it the first stream starts with a gap. An EventSource cannot send Customer-ID.
const FIRST = 500, LONGEST = 30_000, SILENCE = 90_000; // milliseconds
const sign = document.querySelector("[data-live]:not([data-live=''])");
const say = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
let last = sign?.dataset.since || "none", pause = FIRST, stream, running, signedOut;

function show(state) {
  if (sign.dataset.state === state) return;
  const form = { hour: "2-digit", minute: "2-digit", timeZone: sign.dataset.zone };
  const time = new Date().toLocaleTimeString(document.documentElement.lang, form);
  (sign.querySelector("span") ?? sign).textContent = sign.dataset[`${state}Text`].replace("{time}", time);
  sign.dataset.state = state;
  sign.hidden = false;
}

function take(block) {
  last = /^id: (.*)$/m.exec(block)?.[1] ?? last;
  const topic = /^event: (.*)$/m.exec(block)?.[1];
  if (!topic) return;
  say("keyrack:changed", topic);
  for (const each of topic === "gap" ? sign.dataset.live.split(",") : [topic]) say(`keyrack:changed-${each}`);
}

async function read({ signal }, alive) {
  const headers = { "Customer-ID": document.body.dataset.customer, "Last-Event-ID": last };
  const answer = await fetch(`${document.body.dataset.root}/api/v3/live?topics=${sign.dataset.live}`, { headers, signal, cache: "no-store" });
  if ((signedOut = answer.status === 401)) say("keyrack:signed-out");
  pause = Math.max(pause, 1000 * answer.headers.get("Retry-After"));
  if (!answer.ok) return;
  show("live");
  pause = FIRST;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", part; !(part = await reader.read()).done; alive()) {
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop();
    blocks.forEach(take);
  }
}

async function run() {
  for (running = true; !signedOut && !document.hidden; pause = Math.min(2 * pause, LONGEST)) {
    let watch;
    const mine = (stream = new AbortController());
    const alive = () => { clearTimeout(watch); watch = setTimeout(() => mine.abort(), SILENCE); };
    alive();
    await read(mine, alive).catch(() => {}); // after any failure, it is retried
    clearTimeout(watch);
    if (signedOut || document.hidden) break;
    show("reconnecting");
    await new Promise((done) => setTimeout(done, pause * (0.5 + Math.random() / 2)));
  }
  running = false;
  show("paused");
}

if (sign) {
  document.addEventListener("visibilitychange", () => document.hidden ? stream?.abort() : running || signedOut || run());
  run();
}
